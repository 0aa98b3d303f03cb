"""How deep a program is: which operations wait for one another."""
