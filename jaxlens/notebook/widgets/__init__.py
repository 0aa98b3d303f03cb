"""The live widgets, and the comms that connect outputs to the kernel."""
