"""What one look has computed so far: each step is done once, when first asked for."""
