"""Lists the tools of the package: ``python -m imgfeed``."""

print("""Programs, each with --help:
  imgfeed                      serve shard sets, look at running servers, plan machines
  imgshard                     pack images into a shard set, look at sets, check and copy them
  python -m imgfeed.check      compare this machine's pixels with Pillow's and torchvision's
  python -m imgfeed.demo       two ranks and a server, on images that it makes
  python -m imgfeed.gpu_check  check the copies to a CUDA device, and measure them""")
