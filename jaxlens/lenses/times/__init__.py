"""Where compile time goes."""
