"""One kernel: what it fused, its LLVM IR and machine code."""
