"""The recompile lens: why JAX compiled a function again."""
