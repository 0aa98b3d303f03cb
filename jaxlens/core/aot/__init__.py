"""Programs on devices: jit with its cache, its stages, export, donation."""
