"""Records what a job compiles into files, and opens the programs of a record."""
