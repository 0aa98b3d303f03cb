"""One program on many devices."""
