"""Readers of HLO and of what XLA writes about it: buffers, passes, shardings, fusion logs."""
