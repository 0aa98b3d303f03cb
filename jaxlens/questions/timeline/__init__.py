"""Who waits for whom: dispatches, waits and executions of one run, by line."""
