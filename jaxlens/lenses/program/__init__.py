"""Facts about a program that several questions share: kernels, flops, trip counts, passes."""
