"""A call before it is traced: the innermost function, its transforms, arguments and target."""
