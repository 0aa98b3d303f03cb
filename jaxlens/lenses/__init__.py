"""The questions about a program, a subpackage each; `program` has the facts that they share."""
