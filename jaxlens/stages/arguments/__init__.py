"""The arguments of a call: arrays and static values, names, shapes, captured arrays."""
