"""``python -m imgfeed_train``: the same as the command ``imgfeed-train``."""

from .command import main

if __name__ == "__main__":
    main()
