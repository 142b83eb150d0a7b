"""A server and the session with it: the wire, the shared memory, and the program that a loader starts."""
