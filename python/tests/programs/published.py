"""Runs a training program as it was published, with its example's patch, and notes which samples its loaders have given.

    published.py DATA OUT PROGRAM ARGUMENTS...

DATA stands for "{data}" in the arguments, OUT for "{out}".

Where no CUDA device is, torchvision's reference, which knows no other on several processes, is given gloo and the processor.
"""

import argparse
import json
import os
import runpy
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import imgfeed


class Noting(imgfeed.DataLoader):
    """A loader that notes the epoch and the indices of every batch, and gives it without them."""

    made: tuple["Noting", ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, with_index=True, **kwargs)
        self.noted: list[tuple[int, list[int]]] = []
        Noting.made += (self,)

    def __iter__(self) -> Iterator[Any]:
        epoch = self.sampler.epoch
        for images, labels, index in super().__iter__():
            self.noted.append((epoch, [int(i) for i in index]))
            yield images, labels


class OnTheProcessor(torch.nn.parallel.DistributedDataParallel):
    """The same on the processor, whatever devices a program names."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs | {"device_ids": None})


def without_cuda() -> None:
    """Have a program that asks for NCCL and CUDA devices run with gloo on the processor."""

    def instead(function: Callable[..., Any], **other: Any) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **{k: other.get(k, v) for k, v in kwargs.items()})

        return call

    torch.cuda.set_device = lambda device: None
    torch.distributed.init_process_group = instead(torch.distributed.init_process_group, backend="gloo")
    torch.nn.parallel.DistributedDataParallel = OnTheProcessor
    torch.nn.SyncBatchNorm.convert_sync_batchnorm = staticmethod(lambda model: model)
    torch.tensor = instead(torch.tensor, device="cpu")


def main() -> None:
    """Run the program in this process."""
    data, out, program, *arguments = sys.argv[1:]
    imgfeed.DataLoader = Noting
    if not torch.cuda.is_available():
        without_cuda()
    torch.serialization.add_safe_globals([argparse.Namespace])  # torchvision's checkpoints have one, and torch 2.6 loads none
    said: list[str] = []
    warnings.showwarning = lambda message, *_: said.append(str(message))
    sys.argv = [program, *(a.format(data=data, out=out) for a in arguments)]
    sys.path.insert(0, str(Path(program).parent))
    os.chdir(out)  # where pytorch's example puts its checkpoint
    runpy.run_path(program, run_name="__main__")
    noted = {"loaders": [loader.noted for loader in Noting.made], "warnings": said}
    Path(out, f"rank{os.environ.get('RANK', '0')}.json").write_text(json.dumps(noted))


if __name__ == "__main__":
    main()
