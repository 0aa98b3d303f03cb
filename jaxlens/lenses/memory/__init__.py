"""Which line owns the memory peak: live buffers, residuals, donation, checkpointing."""
