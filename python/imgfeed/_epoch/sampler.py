"""The order of a loader's samples, as much of it as programs written for torch's samplers ask for."""

import itertools
from collections.abc import Iterator

from .._server.ranks import rank_batches, rank_samples
from .._server.sets import Array
from .selection import Selection
from .state import Progress

_PIECE = 1 << 16  # indices that become Python's at a time


class Sampler:
    """The loader's order, under the names of torch's DistributedSampler, whoever makes it."""

    def __init__(self, progress: Progress, selection: Selection) -> None:
        self._progress, self._selection, self._service = progress, selection, selection.service
        options = selection.options
        self.shuffle, self.seed = options.shuffle, options.order_seed
        self.drop_last, self.buckets = options.drop_last, options.buckets

    def __repr__(self) -> str:
        return f"<imgfeed Sampler: {len(self)} samples of epoch {self.epoch}, rank {self.rank} of {self.num_replicas}>"

    def set_epoch(self, epoch: int) -> None:
        """As ``imgfeed.DataLoader.set_epoch``."""
        self._progress.set_epoch(epoch)

    def __len__(self) -> int:
        """Return how many samples this rank gets in an epoch, without those that drop_last leaves out."""
        o = self._selection.options
        if o.buckets is not None:
            return len(self._order())
        samples, policy, size = self._selection.positions(self.epoch), o.policy, o.batch_size
        if policy == "drop_last":
            return size * rank_batches(samples, self.rank, self.num_replicas, policy, size)
        return rank_samples(samples, self.rank, self.num_replicas, policy)

    def __iter__(self) -> Iterator[int]:
        """Give the index of every sample of this rank, in the order of the whole epoch that the next iteration is of."""
        order = self._order()
        pieces = (order[at : at + _PIECE].tolist() for at in range(0, len(order), _PIECE))
        return itertools.chain.from_iterable(pieces)

    def batches(self) -> int:
        """Return how many batches this rank gets in an epoch."""
        return self._selection.batches(self._selection.positions(self.epoch), self.rank, self.num_replicas)

    @property
    def batch_size(self) -> int:
        """As the loader's."""
        return self._selection.options.batch_size

    def _order(self) -> Array:
        self._service.session(of_rank=True)
        return self._service.ask(lambda session: session.order(self.epoch, self._selection.of(self.epoch)))

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration is of."""
        return self._progress.mark.start.epoch

    @property
    def rank(self) -> int:
        """As the loader's."""
        return self._service.rank_and_world[0]

    @property
    def num_replicas(self) -> int:
        """The world's size."""
        return self._service.rank_and_world[1]


class BatchSampler:
    """The loader's batches of indices, under the names of torch's BatchSampler."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler, self.drop_last = sampler, sampler.drop_last

    @property
    def batch_size(self) -> int:
        """As the loader's."""
        return self.sampler.batch_size

    def __repr__(self) -> str:
        return f"<imgfeed BatchSampler: {len(self)} batches of {self.batch_size}, of {self.sampler!r}>"

    def __len__(self) -> int:
        """Return how many batches this rank gets in an epoch."""
        return self.sampler.batches()

    def __iter__(self) -> Iterator[list[int]]:
        """Give the indices of each batch of the whole epoch that the next iteration is of. Raises TypeError with buckets."""
        if self.sampler.buckets is not None:
            raise TypeError(
                "imgfeed: batch_sampler can't list batches of buckets, some of which are short: with_index=True does"
            )
        order = list(self.sampler)
        for first in range(0, len(order), self.batch_size):
            yield order[first : first + self.batch_size]
