"""Where a program loses digits, and why its results differ between jit, eager and precisions."""
