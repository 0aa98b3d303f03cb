"""The memory peak by source line: live buffers, residuals, donation, checkpointing."""
