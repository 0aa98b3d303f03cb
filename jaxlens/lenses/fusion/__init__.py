"""What was fused, what that saved, and what was not fused."""
