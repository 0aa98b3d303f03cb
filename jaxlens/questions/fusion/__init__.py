"""The fusions of a program, the memory traffic that they save, and values left between kernels."""
