"""The DataLoader: the part of imgfeed that a training script uses."""

import dataclasses
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NoReturn

from ._arguments import arguments, kinds
from ._arguments.paths import check_there
from ._epoch import accelerated, outputs, state
from ._epoch.batchsource import BadSample, BadSamples, BatchSource
from ._epoch.cuda import CudaOutput
from ._epoch.epoch import EpochIterator, Meter, Needs
from ._epoch.outputs import Fetch, check_lists, chosen
from ._epoch.sampler import BatchSampler, Sampler
from ._epoch.selection import Selection
from ._map.processes import Steps
from ._map.step import step_of
from ._server import ranks
from ._server.client import Session
from ._server.samples import INDEX, LoaderDataset
from ._server.service import Form, Service
from ._server.targets import target_fields
from .records import Record, ask

#: A list of operations, the name of a preset, a transform of torchvision, {"views": [of these, …]}, or {0: one of these, …}.
Transform = str | Sequence[Mapping[str, Any]] | Mapping[str, Any] | Mapping[int, Any] | Callable[..., Any]


def _verdict(stats: dict[str, Any]) -> str:
    """Return what the server waits for, in a sentence, and where to see more."""
    return f"{stats['verdict']} ({stats['page']})" if "page" in stats else str(stats["verdict"])


class DataLoader:
    """Iterates over batches of one split, for this process's rank.

    A batch is a tuple: images (uint8), labels (int64, (B,)), then, if you ask for them, fields, indices (int64, (B,)) and
    params (int32, (B, 5): top, left, height, width, flip; or records). Torch's images have the shape (B, 3, H, W) in either
    layout, numpy's (B, H, W, 3) or (B, 3, H, W). A transform with several views gives lists of images and of params.

    Images are writable views of memory that the server shares; nothing is copied. A batch stays valid as long as anything
    refers to it. If you hold so many that the server would have no slot left, further batches are copies.

    Each iteration begins the next epoch, unless the one before gave no batch; ``set_epoch`` and ``load_state_dict`` choose
    another start. A loader has one iteration at a time: a new one ends the one before.

    Every argument is checked before anything starts: a wrong type raises TypeError; a value out of range, or arguments that
    don't fit together, ValueError. All other errors are an ImgfeedError. docs/python.md is the guide.

    Data:
        dataset: The folder of a shard set or of several, or its URL: the loader starts a server of its own, which ends with
            this process. A folder of images or tars, or a bucket's prefix, is indexed once, into ``~/.cache/imgfeed``, and read
            where it is, with the labels of torchvision's ImageFolder. Or ``unix:PATH``, the socket of a running server. A list
            joins sets, a dictionary of weights mixes them. ``~`` is the home folder.
        classes_apart: Classes of the same name in two joined sets are two classes.
        split: Which split, if the data have several.
        transform: A preset (``eval``, ``train``, ``train-resize``, ``cifar``, …), a transform of torchvision, a list such as
            ``[{"op": "Resize", "size": 256}, {"op": "CenterCrop", "size": 224}]``, or several of these as views:
            ``{"views": [spec, spec, {"repeat": 8, "ops": spec}]}``. A dictionary has the epochs in which each begins, as
            ``{0: spec, 60: "eval"}``.
        size: Pixels of the result's shorter side; all sizes of the transform change in proportion. A dictionary has the epochs
            in which a size begins, as ``{0: 160, 8: 192}``; a function gets the epoch's number.
        buckets: Heights and widths of images, or ``"sdxl"``: all images of a batch have the one nearest to their aspect ratios.
        resampler: The Pillow that resizing matches: ``pillow-13`` (Pillow 13) or ``pillow-12`` (Pillow 9.4 to 12.1). None takes
            the server's, ``pillow-13`` unless it was started with another.
        bit_exact: Refuse a transform if its results differ from those of the original images. Otherwise the log says so.
        on_error: For an unreadable sample: ``error`` raises; ``blank`` gives a black image with the label -100 and fields that
            are NaN, 0 or empty; ``substitute`` gives another sample of its class.
        max_bad: With ``blank`` or ``substitute``, how many samples may be bad in the life of this loader. One more raises
            TooManyBadError, which lists them.

    Batches:
        batch_size: Samples in a batch of this rank.
        drop_last: Leave out the samples that don't fill a batch on every rank.
        even_batches: Give every rank equally many samples, repeating some at the end, as DistributedSampler does. False gives
            each sample once over all ranks, for evaluation; ranks may then differ by one batch.
        fields: Names of the set's values beside each label (``imgshard build --field``), which follow the labels.
        choose: Those of the fields that hold lists, such as several captions: one element comes, another one in each epoch.
        boxes: The format of a set's boxes, ``xyxy``, ``xywh`` or ``cxcywh``: the labels become a list of dictionaries, one for
            each image: boxes (float32, (n, 4)) moved with the image, labels (int64, (n,)), the set's numbers of each box,
            image_id, orig_size (height, width), label and mask if the set has them. Masks alone (uint8, (B, H, W)) replace the
            labels without it. docs/targets.md is the guide.
        boxes_unit: ``pixels``, or ``fraction`` of the image's width and height. None is ``pixels``.
        target: A field that replaces the labels: a multi-hot vector, a number, a text.
        map: A function that gets each sample after the transform, and returns its image, or its image and label. Its parameters
            choose among image, label, target, rng, index, view, fields and params. Boxes and masks stay as they are.
        map_batch: The same for a whole batch: it gets images (n, H, W, C) and labels.
        decode: With ``full``, map gets whole images as they are stored.
        with_index: Add each sample's index in the set's order.
        with_params: Add each sample's draw: top, left, height, width, flip. ``"records"`` adds everything done to it, as
            ``records()`` gives it, made when you look.

    Order:
        shuffle: Give each epoch its own order, made from seed and epoch. None is False.
        seed: Keys the order and the random draws. The same on all ranks.
        subset: The samples to choose from: indices (served in that order without shuffle), class names, a fraction such as 0.1,
            or (fraction, seed). A smaller fraction lies within a larger one.
        weights: Draw samples with replacement, in proportion to a number for each sample of the split, or for each class in a
            dictionary. ``"balanced"`` makes all classes equally frequent. shuffle then changes nothing.
        repeats: How often a sample comes in a row, each time with its own draws and on the next rank.
        mix: A weight for each of the joined sets, or a function of the epoch's number that gives them.
        num_samples: Samples in an epoch, over all ranks. None takes as many as there are to choose from. A mixture ends before
            any sample comes twice (``"shortest"``, its default) or when each has come (``"longest"``).
        order: The indices of an epoch for all ranks together, or a function of the epoch's number that gives them: rank r of w
            serves the positions r, r + w, …
        sampler: A sampler of torch: the indices of this rank. The loader calls its ``set_epoch``.

    Ranks:
        rank: This process among all. None asks torch.distributed, ``RANK``, then the server, anew for every iteration.
        world: How many processes there are. None asks torch.distributed, ``WORLD_SIZE``, then the server.

    Output:
        framework: ``torch``, ``numpy``, or ``auto``: torch if it is installed.
        layout: The order of the images in memory: channels-last (NHWC) or contiguous (NCHW).
        device: Where tensors go. CUDA copies a batch out of the page-locked ring before you ask for it.
        normalize: ``"imagenet"``, or (mean, std) for pixels from 0 to 1: normalise on the device.
        dtype: The images' type of torch. None is uint8, or float32 with normalize, which takes floating-point types only.
        pin_memory: Copy into page-locked memory of torch. Not needed with device.
        verbose: Print a line to stderr after each epoch: images/s, the share of time spent waiting, and for what.

    Resources:
        num_workers: Decoding threads. 0 takes all processors, shared with the other ranks of this machine. A running server
            keeps its own number.
        map_workers: Processes that run map.
        cache: Folder on a local disk that keeps the bytes of a bucket or web server. Servers of the machine share it.
        cache_size: Limit of cache. None: nine tenths of the room on its disk.
        allow_source: Below this URL an index in a bucket or on a web server may have its images. None: only its own host.
        feeders: Addresses of ``imgfeed feed`` on other machines, such as ``["cpu1:7400", "cpu2:7400"]`` or
            ``"dns:feeders:7400"``, which make samples for the loader's own server.
        tls: Folder with certificates for feeders. Without it only feeders of this machine are possible.
        metrics: Address of the status page of the loader's own server, such as ``"127.0.0.1:0"`` for any free port;
            ``stats()["page"]`` has its URL. None takes ``$IMGFEED_METRICS``; empty: no page.
        slots: Batches in the ring of shared memory. 0 takes as many as fit 512 MiB, 3 to 16.
        transport: ``shm``, ``socket``, or ``auto``: shared memory unless the server has none.
        timeout: How long to wait for a batch before TimeoutError, and for one call of map before MapError. 0 waits for ever.
        reconnect: How long to wait for a server that is not there yet or is lost; the epoch continues with the very next batch.
            0 raises LostError.

    Torch compatibility:
        persistent_workers: No effect: the server lasts.
        in_order: No effect: batches always come in order.
        collate_fn: Makes a batch from a list of samples (image, label, …); costs a copy or more, torch's own nothing.
        generator: Its first seed becomes seed.
        worker_init_fn: Never called: there are no worker processes of Python.
        multiprocessing_context: No effect.
        prefetch_factor: No effect: the ring prefetches slots batches.
        batch_sampler: Refused: use batch_size and drop_last, and sampler for the order.
        pin_memory_device: Refused: use device.
    """

    batch_size: int
    shuffle: bool
    drop_last: bool
    num_workers: int
    pin_memory: bool
    timeout: float
    collate_fn: Callable[[list[Any]], Any] | None
    generator: Any
    in_order: bool
    multiprocessing_context: Any
    persistent_workers: bool
    prefetch_factor: int | None
    worker_init_fn: Callable[[int], None] | None

    def __init__(
        self,
        dataset: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[str, float],
        batch_size: int = 1,
        shuffle: bool | None = False,
        *,
        classes_apart: bool = False,
        split: str | None = None,
        transform: Transform = "eval",
        size: int | Mapping[int, int] | Callable[[int], int] | None = None,
        buckets: Literal["sdxl"] | Sequence[tuple[int, int]] | None = None,
        resampler: str | None = None,
        bit_exact: bool = False,
        on_error: Literal["error", "blank", "substitute"] = "error",
        max_bad: int | None = None,
        drop_last: bool = False,
        even_batches: bool = True,
        fields: Sequence[str] = (),
        choose: Sequence[str] = (),
        boxes: Literal["xyxy", "xywh", "cxcywh"] | None = None,
        boxes_unit: Literal["pixels", "fraction"] | None = None,
        target: str | None = None,
        map: Callable[..., Any] | None = None,  # noqa: A002
        map_batch: Callable[..., Any] | None = None,
        decode: Literal["crop", "full"] = "crop",
        with_index: bool = False,
        with_params: bool | Literal["records"] = False,
        seed: int = 0,
        subset: Any = None,
        weights: Any = None,
        repeats: int = 1,
        mix: Sequence[float] | Callable[[int], Sequence[float]] | None = None,
        num_samples: int | Literal["shortest", "longest"] | None = None,
        order: Sequence[int] | Callable[[int], Sequence[int]] | None = None,
        sampler: Iterable[int] | None = None,
        rank: int | None = None,
        world: int | None = None,
        framework: Literal["auto", "torch", "numpy"] = "auto",
        layout: Literal["NHWC", "NCHW"] = "NHWC",
        device: Any = None,
        normalize: Any = None,
        dtype: Any = None,
        pin_memory: bool = False,
        verbose: bool = False,
        num_workers: int = 0,
        map_workers: int = 2,
        cache: str | os.PathLike[str] | None = None,
        cache_size: str | None = None,
        allow_source: str | None = None,
        feeders: str | Sequence[str] | None = None,
        tls: str | os.PathLike[str] | None = None,
        metrics: str | None = None,
        slots: int = 0,
        transport: Literal["auto", "shm", "socket"] = "auto",
        timeout: float = 0,
        reconnect: float = 120,
        persistent_workers: bool = True,
        in_order: bool = True,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        generator: Any = None,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        prefetch_factor: int | None = None,
        **others: NoReturn,
    ) -> None:
        """Open the data; the server decodes nothing before the first iteration."""
        options = arguments.check(locals(), others)
        check_there(options.dataset)
        self._options = options
        # Frameworks make a loader of torch's with these, which refuses them without workers.
        unused = {"persistent_workers": False, "prefetch_factor": None, "multiprocessing_context": None}
        for name in DataLoader.__annotations__:
            setattr(self, name, unused[name] if name in unused and not options.num_workers else getattr(options, name))
        self.seed = options.order_seed
        self.pin_memory_device = ""  # torch's default
        self._output = _output(options)
        self._service = Service(options, self._output.attach)
        self._progress = state.Progress()
        self._bad = BadSamples(options.max_bad)
        #: The caller's time and images.
        self.meter = Meter()
        service = self._service  # not the loader, which an iteration may outlive
        verdict = (lambda: _verdict(service.ask(Session.stats))) if options.verbose else None
        collate = None if outputs.is_default_collate(options.collate_fn) else options.collate_fn
        self._selection = Selection(self._service, options)
        self._needs = Needs(self._output, collate, self._progress, self._selection.after, self.meter, verdict)
        self._step = step_of(options, followed=target_fields(self._service.served, options) is not None)
        check_lists(options.choose, self._service.served.fields)
        self._steps: Steps | None = None
        served = self._service.served
        self._identity = {
            **{name: getattr(served, name) for name in ("split", "fingerprint", "encoding")},
            "content": served.content or None,
            "seed": options.order_seed,
            "shuffle": options.shuffle,
            "selection": self._selection.identity,
        }
        #: The data: length, ``classes``, ``class_to_idx`` and ``targets``.
        self.dataset = LoaderDataset(self._service)
        #: The order, for scripts that call ``loader.sampler.set_epoch``, and its batches.
        self.sampler = Sampler(self._progress, self._selection)
        self.batch_sampler = BatchSampler(self.sampler)

    @property
    def bad(self) -> dict[int, BadSample]:
        """The unreadable samples so far, by index, with key, substitute, reason and epoch of the first time."""
        return dict(self._bad.met)

    def __len__(self) -> int:
        """Return how many batches this rank gets in a whole epoch: that of the last batch."""
        return self._selection.batches(self._selection.positions(self._progress.mark.reached.epoch), self.rank, self.world)

    def _rest(self, epoch: int) -> int:
        """Return how many batches an epoch has left where the next iteration begins; 0 if that is another one, or its start."""
        start = self._progress.mark.start
        left = self._selection.positions(epoch) - start.consumed
        return self._selection.batches(left, self.rank, self.world) if start.epoch == epoch and start.consumed else 0

    def __repr__(self) -> str:
        o = self._options
        given = {epoch: of if isinstance(of, str) else of.views or of.operations for epoch, of in o.transforms.items()}
        transform = given if len(given) > 1 else given[0]
        return (
            f"imgfeed.DataLoader({str(o.dataset)!r}, batch_size={o.batch_size}, split={self._identity['split']!r}, "
            f"transform={transform!r:.120}, rank={self.rank}, world={self.world})"
        )

    @property
    def rank(self) -> int:
        """The number of this process now: torch.distributed may be initialised after the loader was made."""
        return self._service.rank_and_world[0]

    @property
    def world(self) -> int:
        """How many processes there are, as it is now."""
        return self._service.rank_and_world[1]

    def __iter__(self) -> EpochIterator:
        """Begin an epoch, where a loaded state says or at its start."""
        ranks.warn_in_worker()
        with self._service.opening():  # one thread at a time
            self._selection.follow(self._progress)
            iteration = self._begun(self._progress.mark)
            return iter(self) if iteration is None else iteration

    def _begun(self, mark: state.Mark) -> EpochIterator | None:
        """Return an iteration that has begun at the mark; None if another thread has moved that meanwhile."""
        options = self._options
        position, selected = self._selection.begin(mark.start)
        form = Form(options.transform_at(position.epoch), options.size_at(position.epoch), options.batch_size)
        if self._step is not None and (self._steps is None or self._steps.form != form):
            if self._steps is not None:
                self._steps.close()
            self._steps = Steps(self._step, options.map_workers, form, self._service)
        self._service.take(form)
        source = BatchSource(self._service, position, selected, options, self._bad)
        fetch: Fetch = source
        if self._steps is not None:
            fetch = self._steps.begin(source)
        if options.choose:
            columns = [options.fields.index(name) for name in options.choose]
            fetch = chosen(fetch, columns, options, position.epoch)
        slots, remainder = source.slots if self._steps is None else 0, self._selection.remainder(position)
        begun = self._progress.begin(mark, position)
        return begun and EpochIterator(self._needs, source, begun, fetch, slots, remainder=remainder)

    def set_transform(self, transform: Transform) -> None:
        """Change the transform of later iterations, not of a running one.

        Raises ValueError for a transform that ends in other conversions; iterating, BadRequestError if the server refuses it.
        """
        self._change("transform", transform)

    def set_batch_size(self, batch_size: int) -> None:
        """Change the batch size of later iterations, not of a running one. Raises ValueError with buckets."""
        if self._options.buckets is not None:
            raise ValueError("imgfeed: batch_size can't be changed with buckets=: make another loader")
        self._change("batch_size", batch_size)
        super().__setattr__("batch_size", self._options.batch_size)

    def _change(self, name: str, value: Any) -> None:
        self._options = self._selection.options = self._options.changed(name, value)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration, from 0. The epoch of a state that was just loaded keeps its position."""
        self._progress.set_epoch(epoch)

    def skip(self, batches: int) -> None:
        """Move that many batches past the last one handed out, on every rank, for instance after a loss spike.

        Skipped batches are not read, and ``state_dict`` counts them at once. A running iteration continues there. Beyond the
        epoch's end it ends, and the next one begins within the later epoch.
        """
        number = kinds.at_least(0).check("batches", batches)
        self._progress.skip(lambda reached: self._selection.after(reached, number))

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch that was handed out, for a checkpoint. JSON can hold it.

        It is the same on all ranks after as many batches, and may be loaded with another world or batch size.
        """
        return state.make(self._progress.mark.reached, self._identity)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on at the position of a state: the next iteration gives the rest of its epoch.

        Raises StateError for a state of other data, seed, shuffle or choice of samples. Iterating checks order= and sampler=.
        """
        self._progress.load(self._selection.check(state.check(state_dict, self._identity)))
        accelerated.watch_epochs(sys.modules.get("transformers.trainer"))

    def records(
        self, indices: Iterable[int], epoch: int, repetitions: Iterable[int] | None = None, view: int = 0
    ) -> list[Record]:
        """Return the transform's work on samples in an epoch, as lists of calls of ``torchvision.transforms.functional``.

        A call is such as ``{"op": "crop", "top": 3, "left": 20, "height": 200, "width": 180}``; ``imgfeed.reference`` repeats
        them. indices are those of ``with_index=True``, repetitions tell repeated samples apart, view is one of several in the
        transform.
        """
        asked = [INDEX.check("indices", i) for i in indices]
        again = None if repetitions is None else [INDEX.check("repetitions", i) for i in repetitions]
        number, of = kinds.EPOCH.check("epoch", epoch), INDEX.check("view", view)
        if again is not None and len(again) != len(asked):
            raise ValueError(f"imgfeed: repetitions has {len(again)} numbers for {len(asked)} indices")
        return ask(self._service, number, asked, again, of)

    def stats(self) -> dict[str, Any]:
        """Return the server's account of this session, and the caller's own of the running or last epoch.

        ``waiting_for`` is the limit in a word, such as cpu or client, ``verdict`` in a sentence, and ``advice`` a remedy.
        ``reconnects`` is how often the server was lost. ``epoch`` has images, batches, seconds, those ``waited`` for a batch,
        ``wait_fraction`` and ``images_per_second``.
        """
        epoch = self.meter.epoch
        mine = {**dataclasses.asdict(epoch), "wait_fraction": epoch.wait_fraction, "images_per_second": epoch.images_per_second}
        return {**self._service.ask(Session.stats), "reconnects": self._service.reconnects, "epoch": mine}

    def close(self) -> None:
        """Close the connection, and end the server if it is this loader's own. Batches in use stay valid."""
        self._output.drain()
        if self._steps is not None:
            self._steps.close()
        self._service.close()

    def __enter__(self) -> "DataLoader":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse to change an argument, as torch's loader does, except worker_init_fn, which frameworks set."""
        made = name in self.__dict__ or isinstance(getattr(type(self), name, None), property)
        if made and name != "worker_init_fn" and (name in arguments.ARGUMENTS or name in arguments.REFUSED):
            raise ValueError(f"imgfeed: {name} can't be changed when the loader is made: make another one")
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what makes the same loader again: its arguments, and the position reached, where the next iteration begins."""
        return _remade, (type(self), self._options, tuple(self._progress.mark.reached))


def _remade(kind: type[DataLoader], options: arguments.Options, reached: tuple[int, int, str | None]) -> DataLoader:
    loader = kind(**{f.name: getattr(options, f.name) for f in dataclasses.fields(options)})
    loader._progress.load(state.Position(*reached))
    return loader


def _output(options: arguments.Options) -> outputs.Output:
    """Return the output that a loader's arguments ask for. Raises ValueError for a missing device."""
    if not outputs.torch_wanted(options.framework):
        if options.of_torch:
            raise ValueError(f"imgfeed: these need torch, which is not installed: {', '.join(options.of_torch)}")
        return outputs.Output(options)
    cuda, pin, device = outputs.torch().cuda, options.pin_memory, options.device
    on_cuda = device is not None and device.type == "cuda"
    if (on_cuda or pin) and not cuda.is_available():
        if on_cuda:
            raise ValueError(f"imgfeed: device is '{device}', but torch finds no CUDA device")
        warnings.warn("imgfeed: pin_memory does nothing: torch finds no CUDA device", stacklevel=3)
        pin = False
    if on_cuda and device.index is not None and device.index >= cuda.device_count():
        raise ValueError(f"imgfeed: device is '{device}', but torch finds {cuda.device_count()} CUDA device(s)")
    return CudaOutput(options) if on_cuda else outputs.TorchOutput(options, pin=pin)
