"""imgfeed-train, several runs one after the other in one process, for short ones: python and torch start once.

Its argument is a file of JSON: a list of [port of the master, arguments], the same for all ranks.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch

from imgfeed_train.command import main

if __name__ == "__main__":
    torch.set_num_threads(1)
    for port, arguments in json.loads(Path(sys.argv[1]).read_text()):
        os.environ["MASTER_PORT"] = str(port)
        main(arguments)
