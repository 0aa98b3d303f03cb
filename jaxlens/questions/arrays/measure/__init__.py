"""Looks at the arrays that live on the devices of this process."""
