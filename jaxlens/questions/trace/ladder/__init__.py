"""What each transform made of the program below it (`jaxlens.ladder`)."""
