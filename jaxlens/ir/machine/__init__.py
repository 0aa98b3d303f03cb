"""Readers of LLVM IR, machine code and kernel launches."""
