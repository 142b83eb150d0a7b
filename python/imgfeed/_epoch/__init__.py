"""An epoch in the client: its samples, its batches, how far a loader has come, and how batches reach the caller."""
