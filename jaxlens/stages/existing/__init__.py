"""Programs that are there already: JAX's stage objects, HLO and StableHLO text, dump folders."""
