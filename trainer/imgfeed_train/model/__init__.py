"""The model: built by name, given weights, spread over ranks, and the largest batch that it can take."""
