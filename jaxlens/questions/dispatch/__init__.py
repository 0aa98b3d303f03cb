"""What a call costs before the device works: by part, by argument and by library."""
