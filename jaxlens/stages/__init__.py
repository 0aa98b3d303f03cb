"""Makes a program: traces, lowers and compiles a call, or takes one that was made elsewhere."""
