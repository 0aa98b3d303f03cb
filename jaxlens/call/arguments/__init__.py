"""The arguments of a call: arrays and static values, names and shapes."""
