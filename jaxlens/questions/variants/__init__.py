"""The same program with a pass left out or a flag set."""
