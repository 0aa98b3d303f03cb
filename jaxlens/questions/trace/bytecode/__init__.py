"""Bytecode beside equations (`%%jaxpr --bytecode`)."""
