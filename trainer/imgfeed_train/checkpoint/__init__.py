"""Checkpoints: what a training goes on from, files in a folder or a store, and their way there beside the training."""
