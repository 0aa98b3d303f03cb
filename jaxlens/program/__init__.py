"""What is true of any program and several questions share: kernels, flops, sentences."""
