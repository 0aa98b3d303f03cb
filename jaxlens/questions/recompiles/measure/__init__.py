"""Traces recompiled calls again with a change that would have avoided it."""
