"""Facts of any program, on which the questions are built: kernels, flops, trip counts."""
