"""Which samples a loader's epochs hold, if not each of the split once: docs/sampling.md has it in full.

The client sends a list of indices and a list of weights once; the server's plan does the rest.
"""

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from .. import errors
from .._arguments.arguments import Options
from .._arguments.kinds import Fraction
from .._arguments.numbers import indices
from .._server.client import Session
from .._server.ranks import rank_batches
from .._server.service import Service
from .._server.sets import Array, Selected
from .state import Position, Progress

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


class Selection:
    """The samples that a loader serves in each epoch."""

    def __init__(self, service: Service, options: Options) -> None:
        """Take the selection of options. The server checks it here, unless it is made anew for each epoch."""
        self.service = service
        #: The loader's arguments, as they are now: its batch size may change.
        self.options = options
        self._sampler_epoch = getattr(options.sampler, "epoch", None)  # as this object last saw it
        if not self.anew and options.selects:
            selected = self.of(0)
            service.ask(lambda session: session.select(selected))

    @property
    def anew(self) -> bool:
        """Whether it is made for each epoch."""
        return self.options.sampler is not None or callable(self.options.order)

    @property
    def identity(self) -> str | None:
        """The selection's entry in a state; None if it needs no entry."""
        if self.options.mixture is not None:
            return "mix"  # a state may be resumed with other weights
        if self.anew:
            return "order" if self.options.sampler is None else "sampler"
        if self.options.buckets is not None:
            o = self.options
            return f"batches of {o.batch_size}{', full ones' if o.drop_last else ''}, of the buckets {o.buckets}"
        return self._lasting.digest if self.options.selects else None

    def follow(self, progress: Progress) -> None:
        """Take the epoch of a sampler after a caller's ``set_epoch``, as programs for torch call it."""
        epoch = getattr(self.options.sampler, "epoch", None)
        if isinstance(epoch, int) and epoch != self._sampler_epoch:
            progress.set_epoch(epoch)
            self._sampler_epoch = epoch

    def check(self, position: Position) -> Position:
        """Return a state's position as ``after`` does. Raises StateError if it lies beyond the epoch's known end."""
        if self.anew or self.options.mixture is not None:
            return position
        if position.consumed > (end := self.positions(position.epoch)):
            raise errors.StateError(
                f"imgfeed: state whose consumed is {position.consumed}: epoch {position.epoch} has {end} samples"
            )
        return self.after(position)

    def begin(self, position: Position) -> tuple[Position, Selected | None]:
        """Return the position, with its order's name, and its epoch's samples. An epoch's end becomes the next one's start.

        Raises StateError for a position in another order than the epoch's, and ValueError for an epoch without a batch.
        """
        selected = self.of(position.epoch)
        order = selected.digest if selected is not None and self.anew else None
        rank, world = self.service.rank_and_world
        if order is not None and self.options.sampler is not None:
            order = f"{rank}/{world} {order}"
        if position.consumed and position.order and order:
            _check_order(position.order, order)
        end = self.positions(position.epoch)
        if selected is not None and selected.indices is not None and selected.of_rank:
            end = len(selected.indices) * world  # whatever the sampler's len() says
        if self.batches(end - position.consumed, 0, world):
            return Position(position.epoch, position.consumed, order), selected
        if position.consumed:
            return self.begin(Position(position.epoch + 1, 0))
        raise ValueError(
            f"imgfeed: epoch {position.epoch} has no batch: its {end:,} samples don't fill one of {self.options.batch_size:,} "
            f"on each of {world:,} ranks, and drop_last=True leaves out all others: take a smaller batch_size, or "
            "drop_last=False"
        )

    def positions(self, epoch: int) -> int:
        """Return how many samples an epoch has, over all ranks; of buckets as many as its batches have room for."""
        o, world = self.options, self.service.rank_and_world[1]
        if o.buckets is not None:
            return self.service.session().positions
        if o.sampler is not None:
            return len(o.sampler) * world
        if self._number is not None:
            return self._number
        if o.mixture is not None:
            return _length(self._mix(epoch), self.service.served.joined, longest=o.num_samples == "longest")
        selected = self.of(epoch)
        if selected is None or selected.indices is None:
            return self.service.served.samples
        return len(selected.indices)

    def batches(self, positions: int, rank: int, world: int) -> int:
        """Return how many batches a rank gets of so many samples, 0 of a negative number."""
        positions = max(0, positions)
        o, size = self.options, self.options.batch_size
        if o.buckets is not None:  # whole batches are dealt
            return rank_batches(positions // size, rank, world, o.policy, 1)
        return rank_batches(positions, rank, world, o.policy, size)

    def remainder(self, position: Position) -> int:
        """Return Accelerate's ``remainder``: samples in the last batch, over all ranks; 0: it is full; -1: keep all.

        Accelerate keeps so many of the gathered batch's first samples, which is right if at most the very last one is repeated.
        """
        o, world = self.options, self.service.rank_and_world[1]
        if o.drop_last or o.buckets is not None:
            return -1
        rest = (self.positions(position.epoch) - position.consumed) % (o.batch_size * world)
        return -1 if o.even_batches and -rest % world > 1 else rest

    def after(self, position: Position, batches: int = 0) -> Position:
        """Return the position that many batches later; from the epoch's end on it is one of a later epoch."""
        o, world = self.options, self.service.rank_and_world[1]
        stride = o.batch_size * world
        epoch = position.epoch
        left = self.batches(self.positions(epoch) - position.consumed, 0, world)
        if batches < left:
            return Position(epoch, position.consumed + batches * stride, position.order)
        epoch, batches = epoch + 1, batches - left
        while batches:
            left = self.batches(self.positions(epoch), 0, world)
            if not left:
                raise ValueError(f"imgfeed: skip: there are {batches} batches more to go, and epoch {epoch} has none")
            if batches < left:
                break
            whole = 1 if callable(o.order) or callable(o.mixture) else batches // left  # epochs of equal length at once
            epoch, batches = epoch + whole, batches - whole * left
        return Position(epoch, batches * stride)

    def of(self, epoch: int) -> Selected | None:
        """Return an epoch's samples; None: each once."""
        o = self.options
        if not o.selects:
            return None
        if o.mixture is not None:
            return Selected(positions=self.positions(epoch), mix=self._mix(epoch))
        if not self.anew:
            return self._lasting
        if o.sampler is not None:
            return Selected(indices("sampler", self._sampled(epoch), "indices"), of_rank=True)
        if self._made is None or self._made[0] != epoch:
            self._made = (
                epoch,
                Selected(indices("order", o.order(epoch), "indices"), repeats=o.repeats, positions=self._number),
            )
        return self._made[1]

    def _mix(self, epoch: int) -> tuple[float, ...]:
        given, joined = self.options.mixture, self.service.served.joined
        given = given(epoch) if callable(given) else given
        try:
            weights = tuple(float(w) for w in given)
        except (TypeError, ValueError):
            wrong = f"imgfeed: mix is {given!r:.80} for epoch {epoch}, want a number for each of the joined sets"
            raise TypeError(wrong) from None
        good = len(weights) == len(joined) and all(
            0 <= w < math.inf and (n or not w) for w, n in zip(weights, joined, strict=True)
        )
        if not good or not any(weights):
            raise ValueError(
                f"imgfeed: the weights of a mixture are {weights!r:.80}, and the joined sets have {joined!r:.80} samples: "
                "want a finite number for each, 0 or more and not all of them 0"
            )
        return weights

    def _sampled(self, epoch: int) -> list[Any]:
        """Return the indices that the caller's sampler gives for an epoch."""
        sampler = self.options.sampler
        if callable(getattr(sampler, "set_epoch", None)):
            sampler.set_epoch(epoch)
            self._sampler_epoch = getattr(sampler, "epoch", None)
        return list(sampler)

    @cached_property
    def _lasting(self) -> Selected:
        o = self.options
        listed = o.order if o.order is not None else self._subset(o.subset)
        weights = None if o.weights is None else self._weights(o.weights, listed)
        return Selected(listed, weights, o.repeats, self._number)

    @property
    def _number(self) -> int | None:
        given = self.options.num_samples
        return given if isinstance(given, int) else None

    def _subset(self, subset: Any) -> Array | None:
        if subset is None or isinstance(subset, np.ndarray):
            return subset
        if isinstance(subset, Fraction):
            return _fraction(subset, self.service.served.samples)
        numbers = self._numbers("subset", subset)
        return np.flatnonzero(np.isin(self._labels("subset"), numbers))

    def _weights(self, weights: Any, listed: Array | None) -> Array:
        """Return the weight of each sample to choose from, float64."""
        if isinstance(weights, np.ndarray):
            if len(weights) != self.service.served.samples:
                raise ValueError(
                    f"imgfeed: weights holds {len(weights):,}, and the split has {self.service.served.samples:,} samples: "
                    "want one for each sample of the split, or a dictionary with one for each class"
                )
            return weights if listed is None else weights[_within(listed, len(weights))]
        labels = self._labels("weights")
        if listed is not None:
            labels = labels[_within(listed, len(labels))]
        if isinstance(weights, str):  # "balanced"
            counts = np.bincount(labels)
            return 1.0 / counts[labels]
        of_class = np.full(self.service.served.classes, np.nan)
        of_class[self._numbers("weights", weights)] = list(weights.values())
        without = np.unique(labels[np.isnan(of_class[labels])])
        if len(without):
            names = self.service.ask(Session.classes)
            raise ValueError(
                f"imgfeed: weights has none for {_some([names[label] for label in without])}, of which there are samples"
            )
        return of_class[labels]

    def _numbers(self, name: str, classes: Iterable[str]) -> list[int]:
        numbers = {of: number for number, of in enumerate(self.service.ask(Session.classes))}
        unknown = [of for of in classes if of not in numbers]
        if unknown:
            raise ValueError(
                f"imgfeed: {name} names {_some(unknown)}: the split has no such class; it has {_some(list(numbers)) or 'none'}"
            )
        return [numbers[of] for of in classes]

    def _labels(self, name: str) -> Array:
        labels = self.service.ask(Session.labels)
        if labels.size and labels.min() < 0:
            here = self.service.served.partitions_here
            if len(here) == self.service.served.partitions:
                raise ValueError(f"imgfeed: {name} goes by class labels, which not all images have: give {name} by sample")
            raise errors.MissingError(
                f"imgfeed: {name} of classes takes every sample's label, and of {self.service.served.partitions} partitions "
                f"only {len(here)} are here: give {name} by sample, or copy the others"
            )
        return labels

    #: The last result, and its epoch.
    _made: tuple[int, Selected] | None = None


def _length(mix: tuple[float, ...], joined: tuple[int, ...], *, longest: bool) -> int:
    """Return how many samples a mixture has: until a set ends, or with longest until all have ended."""
    whole = [n * sum(mix) / weight for weight, n in zip(mix, joined, strict=True) if weight]
    return math.ceil(max(whole) - 1e-9) if longest else math.floor(min(whole) + 1e-9)


def _within(listed: Array, samples: int) -> Array:
    """Return the list, which must hold indices of so many samples."""
    bad = np.flatnonzero((listed < 0) | (listed >= samples))
    if len(bad):
        first = bad[0]
        raise ValueError(f"imgfeed: position {first} of the samples chosen is {listed[first]}: indices are 0 to {samples - 1}")
    return listed


def _fraction(fraction: Fraction, samples: int) -> Array:
    """Return a share of all indices, in rising order: those with the smallest keys, so that a larger share has them too."""
    with np.errstate(over="ignore"):
        keys = _mix(_mix(np.array([fraction.seed]).astype(np.uint64)) + np.arange(samples, dtype=np.uint64) * _GAMMA)
    count = max(1, round(fraction.share * samples))
    return np.sort(np.argpartition(keys, count - 1)[:count]).astype(np.int64)


def _mix(z: Array) -> Array:
    """SplitMix64's finaliser, as docs/transforms.md has it."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def _check_order(made: str, now: str) -> None:
    """Raise StateError unless a position in the order made has the same meaning in the order of now."""
    (of, _, made_digest), (here, _, digest) = made.rpartition(" "), now.rpartition(" ")
    if of.rpartition("/")[2] != here.rpartition("/")[2]:
        raise errors.StateError(
            f"imgfeed: this state can't be resumed here: it was made by rank {of}, and this is rank {here}. A sampler= gives "
            "each rank an order of its own, which can be resumed in the same world only: order= takes one for all ranks"
        )
    if of == here and made_digest != digest:
        raise errors.StateError(
            "imgfeed: this state can't be resumed here: the epoch has another order than the one that it was made in. "
            "Make the order from the epoch's number: a sampler with set_epoch(), or one whose generator is seeded with it"
        )


def _some(names: list[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
