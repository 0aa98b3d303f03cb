"""The primitives, each one block: types, StableHLO, tangents, cotangents, batches."""
