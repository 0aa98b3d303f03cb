"""Executes and times compiled programs, and measures the peak rates of the device."""
