"""A soak: train-like loops and servers, while everything around them is killed, held, damaged and filled."""
