"""What a run is fed: the sets there are, the transforms of their images, batches from imgfeed, mixing."""
