"""A caller's own function on samples or batches, and the processes that run it."""
