"""The cached stages of one capture: each step runs once, on first use."""
