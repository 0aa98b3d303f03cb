"""Machine code: disassembled objects, and the launches of kernels on a GPU."""
