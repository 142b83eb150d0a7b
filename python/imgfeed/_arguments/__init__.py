"""What a caller gives: arguments with their kinds, paths, torchvision's transforms, and datasets of other libraries."""
