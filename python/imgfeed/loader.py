"""The DataLoader: what a training script sees of imgfeed."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn

from . import arguments, client, errors, frameworks, state
from .client import Session, SetInfo
from .dataset import Dataset, Sampler, rank_batches, rank_samples
from .launcher import OwnServer

log = logging.getLogger("imgfeed")

#: A list of operations, or the name of a preset.
Transform = str | Sequence[Mapping[str, Any]]

_BLANKS_NAMED = 3  # in the log's line about a batch


class DataLoader:
    """Iterates over batches of one split, for this process's rank.

    Each batch is a tuple: images (uint8), labels (int64, shape (B,)), then, if asked for, indices (int64, (B,)) and
    params (int32, (B, 5): top, left, height, width, flip). With torch, images have the shape (B, 3, H, W), in memory
    channels-last with ``layout="NHWC"`` and contiguous with ``layout="NCHW"``. As numpy arrays they have the shape
    (B, H, W, 3) or (B, 3, H, W).

    Images are views of memory that is shared with the server; nothing is copied. A batch stays valid for as long as
    anything refers to it: its slot goes back to the server with the last reference. When a caller holds so many batches
    that the server would have no slot left, further ones come as copies. The arrays are writable; they are the caller's.

    An iteration that came to its end makes the next one the next epoch; one that was broken off is begun again.
    ``set_epoch`` says it explicitly. A loader has one iteration at a time: a new one ends the one before.

    Args:
        dataset: The folder of a shard set, or of several; the loader then runs a server of its own, which ends with
            this process. Or ``unix:PATH``, the socket of a running one.
        batch_size: Samples in a batch of this rank.
        shuffle: Whether each epoch has an order of its own, made from seed and epoch.
        transform: ``eval``, ``train``, ``train-resize``, ``cifar``, or a list such as
            ``[{"op": "Resize", "size": 256}, {"op": "CenterCrop", "size": 224}]``.
        split: Which split, where the server has several.
        seed: Keys the order and the random crops. The same on all ranks.
        drop_last: Leave out what doesn't fill a batch on every rank.
        even_batches: Give every rank as many samples, repeating some at the end, as DistributedSampler does. False gives
            every sample once over all ranks, for evaluation; ranks may then differ by one batch.
        rank, world: This process among all; from torch.distributed or torchrun's variables if not given.
        with_index: Add each sample's index, its place in the shard set's order.
        with_params: Add each sample's draw: top, left, height, width, flip.
        num_workers: Threads that decode; 0 takes all processors, shared with the other ranks of this machine.
            A server that was there before has its own number, and refuses another.
        pin_memory: Give copies in page-locked memory of torch. Not needed with device.
        timeout: Seconds to wait for a batch before TimeoutError; 0 waits for ever.
        persistent_workers, in_order: Taken and not needed: the server lasts, and batches always come in order.
        device: Where tensors are to be; a CUDA device gets asynchronous copies out of a page-locked ring, one batch
            ahead.
        normalize: ``"imagenet"``, or (mean, std) for pixels from 0 to 1: images come as dtype, normalised on
            their device.
        dtype: A torch type for images; uint8, or float32 with normalize, if not given.
        layout: ``NHWC`` or ``NCHW``, the order of the images in memory.
        framework: ``torch``, ``numpy``, or ``auto``: torch if it is installed.
        transport: ``shm``, ``socket``, or ``auto``: shared memory unless the server has none.
        slots: Batches in the ring; 0 leaves it to the server, which takes as many as fit 512 MiB, from 3 to 16.
        on_error: What a sample that can't be read does: ``error`` raises, ``blank`` gives a black image.
        resampler: Whose bits resizing gives: ``pillow-13`` (Pillow 13) or ``pillow-12`` (Pillow 9.4 to 12.3), which resize
            some tall images differently. If not given, the server's own: pillow-13 unless it was started with another.
            Operations that name one keep it.
        bit_exact: Refuse a transform that does not give the bits that it gives of the original images, because the
            set's images were resized before they were stored, or by another resampler. Without it the first note in the
            log says so.

    Raises:
        ImgfeedError: See its subclasses in imgfeed.errors. ValueError: for arguments that don't fit together.
    """

    _server: OwnServer | None = None
    _session: Session | None = None
    _cuda: frameworks.CudaOutput | None = None
    _info: SetInfo | None = None
    _running: weakref.ref[_Epoch] | None = None
    _place = (0, 0)  # epoch and consumed behind the last batch that the caller has had
    _next = (0, 0)  # where the next iteration begins

    def __init__(
        self,
        dataset: str | os.PathLike[str],
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        transform: Transform = "eval",
        split: str | None = None,
        seed: int = 0,
        drop_last: bool = False,
        even_batches: bool = True,
        rank: int | None = None,
        world: int | None = None,
        with_index: bool = False,
        with_params: bool = False,
        num_workers: int = 0,
        pin_memory: bool = False,
        timeout: float = 0,
        persistent_workers: bool = True,
        in_order: bool = True,
        device: Any = None,
        normalize: Any = None,
        dtype: Any = None,
        layout: str = "NHWC",
        framework: str = "auto",
        transport: str = "auto",
        slots: int = 0,
        on_error: str = "error",
        resampler: str | None = None,
        bit_exact: bool = False,
        **refused: Any,
    ) -> None:
        """Open the data; the server decodes nothing before the first iteration."""
        arguments.refuse(refused)
        self._source = arguments.path(dataset)
        batch_size, seed = arguments.whole("batch_size", batch_size), arguments.whole("seed", seed)
        num_workers, slots = arguments.whole("num_workers", num_workers), arguments.whole("slots", slots)
        shuffle, drop_last, even_batches = bool(shuffle), bool(drop_last), bool(even_batches)
        self._policy = arguments.policy(drop_last, even_batches)
        arguments.check(self._source, batch_size, num_workers, timeout, transport)
        self.batch_size = batch_size
        self.seed = seed
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.timeout = timeout
        self.rank, self.world = frameworks.rank_and_world(rank, world)
        self._with_index, self._with_params = with_index, with_params
        self._transport = transport
        self._options: dict[str, Any] = {
            "transform": arguments.operations(transform),
            "batch_size": batch_size,
            "seed": seed,
            "shuffle": shuffle,
            "policy": self._policy,
            "rank": self.rank,
            "world": self.world,
            "layout": layout,
            "slots": slots,
            "with_params": bool(with_params),
            "on_error": on_error,
            "bit_exact": bool(bit_exact),
            **({} if resampler is None else {"resampler": resampler}),
        }
        self._output, self._cuda = _outputs(
            framework, layout, pin_memory=pin_memory, device=device, normalize=normalize, dtype=dtype
        )
        self._split = split
        self._facts: dict[str, Any] = {}  # what the server has told about the data
        self._connect()

    @property
    def dataset(self) -> Dataset:
        """What is served: its length, ``classes``, ``class_to_idx`` and ``targets``."""
        return Dataset(self._served, self._connect, self._facts)

    @property
    def sampler(self) -> Sampler:
        """The order, for scripts that call ``loader.sampler.set_epoch``."""
        return Sampler(self.set_epoch, rank_samples(self._served.samples, self.rank, self.world, self._policy))

    def __len__(self) -> int:
        """Return how many batches this rank gets in a whole epoch."""
        return rank_batches(self._served.samples, self.rank, self.world, self._policy, self.batch_size)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Begin an epoch, where a loaded state says or at its start."""
        session = self._connect()
        epoch, consumed = self._next
        try:
            running = session.start(epoch, min(consumed, self._served.samples))
        except errors.ServerError as e:
            self._reraise(e)
        self._place, self._next = (epoch, consumed), (epoch, 0)
        iteration = _Epoch(self, session, running)
        self._running = weakref.ref(iteration)
        return iteration

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next iteration is; it keys the order and the random crops. From 0.

        Naming the epoch of a state that was just loaded keeps the place in it.
        """
        epoch = arguments.whole("epoch", epoch)
        if epoch < 0:
            raise ValueError(f"imgfeed: epoch {epoch}, want 0 or more")
        if self._next[0] != epoch:
            self._next = (epoch, 0)
        if self._place[0] != epoch:
            self._place = (epoch, 0)

    def state_dict(self) -> dict[str, Any]:
        """Return the place behind the last batch that was handed out, for a checkpoint. JSON can hold it.

        It is the same on all ranks that have had as many batches, and may be loaded with another world or batch size.
        """
        epoch, consumed = self._place
        return state.make(epoch=epoch, consumed=consumed, **self._identity())

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on at the place of a state: the next iteration gives the rest of its epoch.

        Raises StateError if it was made on other data, or with another seed or shuffle.
        """
        self._next = self._place = state.check(state_dict, **self._identity())

    def stats(self) -> dict[str, Any]:
        """Return the server's account of this session. ``waiting_for`` says disk, cpu, client or idle."""
        return self._connect().stats()

    def close(self) -> None:
        """Close the connection, and end the server if it is this loader's own. Batches that are held stay valid."""
        if self._cuda is not None:
            self._cuda.drain()
        if self._session is not None:
            self._session.close()
        if self._server is not None:
            self._server.close()
        self._session = self._server = None

    def __enter__(self) -> DataLoader:
        """Return the loader itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the loader."""
        self.close()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse to be pickled or copied: a connection can't be, and a copy would share it."""
        raise TypeError(
            "imgfeed: a DataLoader can't be pickled or copied, as it holds a connection: make one in each process, with the "
            "same arguments; state_dict() holds its place"
        )

    def __del__(self) -> None:
        """Let the server go on without this loader's session. A server of its own ends by its own finalizer."""
        if self._session is not None:
            self._session.close()
        if self._cuda is not None and not sys.is_finalizing():
            self._cuda.drain()  # copies that are under way read memory which goes with the loader

    @property
    def _served(self) -> SetInfo:
        assert self._info is not None  # the constructor has connected
        return self._info

    def _identity(self) -> dict[str, Any]:
        served = self._served
        return {"seed": self.seed, "shuffle": self.shuffle, "fingerprint": served.fingerprint, "split": served.split}

    def _connect(self) -> Session:
        """Return the session; in a forked child, or after the connection broke, a new one."""
        if self._session is not None and self._session.usable:
            return self._session
        self.close()
        if self._source.startswith("unix:"):
            session = client.connect(self._source.removeprefix("unix:"))
        else:
            threads = self.num_workers or frameworks.threads_default()
            self._server = OwnServer(self._source, threads)
            session = self._server.session
        try:
            self._open(session)
        except BaseException:
            session.close()
            self.close()
            raise
        self._session = session
        return session

    def _open(self, session: Session) -> None:
        options = dict(self._options)
        if self._split is not None:
            options["split"] = self._split
        elif len(session.sets) > 1:
            names = ", ".join(s.split for s in session.sets)
            raise errors.MissingError(f"imgfeed: the server has {len(session.sets)} splits ({names}): name one with split=")
        options["transport"] = "socket" if self._transport == "socket" else "shm"
        try:
            opened = session.open(options)
        except errors.UnsupportedError:
            if self._transport != "auto":
                raise
            opened = session.open({**options, "transport": "socket"})
        info = next(s for s in session.sets if s.split == opened["split"])
        if self._info is not None and info.fingerprint != self._info.fingerprint:
            raise errors.ServerError(f"imgfeed: {self._source} holds other data than when this loader was made")
        if self._info is None:
            for note in opened.get("notes") or ():
                log.warning("imgfeed: %s", note)
        self._info = info
        if self._cuda is not None and session.ring is not None:
            frameworks.page_lock(session.ring)

    def _reraise(self, error: errors.ServerError) -> NoReturn:
        """Raise error, with what an own server printed last if its end is the cause."""
        explained = error if self._server is None else self._server.explain(error)
        if explained is error:
            raise error
        raise explained from error


class _Epoch(Iterator[tuple[Any, ...]]):
    """One iteration of a loader."""

    def __init__(self, loader: DataLoader, session: Session, running: client.Epoch) -> None:
        self._loader = loader
        self._session = session
        self._started = running
        self._left = running.batches
        self._over = False
        self._ahead: tuple[client.Batch, list[Any], Any] | None = None
        self._failed: errors.ImgfeedError | None = None  # what came in place of the batch behind the one ahead

    def __len__(self) -> int:
        """Return how many batches are left."""
        return self._left

    def __next__(self) -> tuple[Any, ...]:
        """Return the next batch."""
        loader = self._loader
        if self._over:
            raise StopIteration
        if loader._running is None or loader._running() is not self:
            raise errors.ImgfeedError("imgfeed: a newer iteration of this loader has ended this one")
        try:
            found = self._next_on_cuda() if loader._cuda is not None else self._next()
        except errors.TimeoutError:
            raise
        except errors.ImgfeedError as e:
            self._over = True  # but not the epoch: its place stays behind the last batch
            if isinstance(e, errors.ServerError):
                loader._reraise(e)
            raise
        if found is None:
            self._finish()
            raise StopIteration
        batch, (images, labels, indices, params) = found
        self._left -= 1
        loader._place = (self._started.epoch, batch.consumed)
        parts = [images, labels]
        if loader._with_index:
            parts.append(indices)
        if loader._with_params:
            parts.append(params)
        return tuple(parts)

    def __del__(self) -> None:
        """Have the server stop, when an iteration is broken off."""
        if not self._over:
            self._session.stop(self._started)

    def _fetch(self) -> client.Batch | None:
        batch = self._session.next(self._loader.timeout or None)
        if batch is not None and batch.blank:
            self._warn(batch)
        if batch is not None and not self._loader._with_index:
            batch.arrays.indices = None  # no tensor is made, and no copy, of what nobody sees
        return batch

    def _warn(self, batch: client.Batch) -> None:
        """Log which samples of a batch are blank: the first few by their keys."""
        assert batch.arrays.indices is not None
        names = []
        with contextlib.suppress(errors.ImgfeedError):  # the batch is there, whether its keys can be had or not
            names = [self._session.key(int(batch.arrays.indices[place])) for place in batch.blank[:_BLANKS_NAMED]]
        if len(batch.blank) > len(names):
            names.append("…")
        text = "imgfeed: epoch %d, batch %d: %d blank samples, which can't be read: %s"
        log.warning(text, self._started.epoch, batch.number, len(batch.blank), ", ".join(names))

    def _next(self) -> tuple[client.Batch, tuple[Any, Any, Any, Any]] | None:
        batch = self._fetch()
        if batch is None:
            return None
        return batch, self._loader._output(batch.arrays)

    def _next_on_cuda(self) -> tuple[client.Batch, tuple[Any, Any, Any, Any]] | None:
        cuda = self._loader._cuda
        assert cuda is not None
        if self._failed is not None:
            raise self._failed
        ready = self._ahead or self._begin_copy()
        self._ahead = None
        if ready is None:
            return None
        try:
            self._ahead = self._begin_copy()
        except errors.TimeoutError:
            pass  # this batch is here; the next call waits again
        except errors.ImgfeedError as e:
            self._failed = e
        batch, there, event = ready
        return batch, cuda.take(there, event)

    def _begin_copy(self) -> tuple[client.Batch, list[Any], Any] | None:
        cuda, ring = self._loader._cuda, self._session.ring
        assert cuda is not None
        batch = self._fetch()
        if batch is None:
            return None
        return (batch, *cuda.put(batch.arrays, max(1, ring.slots - 3) if ring is not None else 2))

    def _finish(self) -> None:
        loader = self._loader
        self._over = True
        if loader._cuda is not None:
            loader._cuda.drain()
        loader._place = (self._started.epoch + 1, 0)
        if loader._next[0] == self._started.epoch:
            loader._next = loader._place


def _outputs(
    framework: str, layout: str, *, pin_memory: bool, device: Any, normalize: Any, dtype: Any
) -> tuple[frameworks.NumpyOutput | frameworks.TorchOutput, frameworks.CudaOutput | None]:
    if layout not in ("NHWC", "NCHW"):
        raise ValueError(f"imgfeed: layout must be 'NHWC' or 'NCHW', not {layout!r}")
    if not frameworks.torch_wanted(framework):
        if device is not None or normalize is not None or dtype is not None or pin_memory:
            raise ValueError("imgfeed: device, normalize, dtype and pin_memory need torch")
        return frameworks.NumpyOutput(), None
    torch = frameworks.torch()
    if dtype is not None and not isinstance(dtype, torch.dtype):
        raise TypeError(f"imgfeed: dtype is {dtype!r}, want a type of torch such as torch.float16")
    if normalize is not None and dtype is not None and not dtype.is_floating_point:
        raise ValueError(f"imgfeed: normalised images can't be {dtype}")
    device = None if device is None else torch.device(device)
    if device is not None and device.type not in ("cpu", "cuda"):
        raise ValueError(f"imgfeed: device must be 'cpu' or 'cuda', not {device}: move the batches in the loop")
    on_cuda = device is not None and device.type == "cuda"
    if (on_cuda or pin_memory) and not torch.cuda.is_available():
        if on_cuda:
            raise ValueError("imgfeed: device='cuda', but torch finds no CUDA device")
        warnings.warn("imgfeed: pin_memory does nothing: torch finds no CUDA device", stacklevel=3)
        pin_memory = False
    output = frameworks.TorchOutput(layout, pin_memory and not on_cuda, normalize, dtype)
    return output, frameworks.CudaOutput(device, output) if on_cuda else None
