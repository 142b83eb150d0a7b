"""How a run starts and ends: which rank a process is, its children, how ranks meet, what each notes of itself, signals."""
