"""Lists the tools of the package: ``python -m imgfeed``."""

print(
    "Programs, each with --help:",
    "  imgfeed                      serve shard sets, inspect running servers, measure",
    "  imgshard                     pack images into a shard set, inspect, check and copy sets",
    "  python -m imgfeed.check      compare this machine's pixels with Pillow's and torchvision's",
    "  python -m imgfeed.demo       two ranks and a server, on images that it makes",
    "  python -m imgfeed.gpu_check  check the copies to a CUDA device, and measure them",
    sep="\n",
)
