"""What several test files share: paths, programs, and captures and modules written by hand."""
