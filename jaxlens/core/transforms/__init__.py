"""What users need around the kernel: checked arguments, calls and branches, custom derivatives."""
