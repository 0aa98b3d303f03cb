"""Which device holds which part of an array, and what travels between devices."""
