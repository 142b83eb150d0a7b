"""The server that a loader is fed by, and the session open on it."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from . import client, errors, ranks
from .arguments import Options
from .client import Session, SetInfo
from .launcher import OwnServer
from .ring import Ring

log = logging.getLogger("imgfeed")


class Service:
    """A server and a session on it: opened at once, and anew in a forked child or after the connection broke.

    It ends with the last object that uses it, which may be an iteration whose loader is gone, or with the interpreter.
    """

    def __init__(self, options: Options, attach: Callable[[Ring], None]) -> None:
        """Open the data. attach is called with the ring of every session that has one."""
        self._options = options
        self._attach = attach
        self._session: Session | None = None
        self._server: OwnServer | None = None
        self._end: weakref.finalize[[], Any] | None = None
        self._served: SetInfo | None = None
        self._opened_as = (0, 1)  # rank and world of the session
        self.session()

    @property
    def served(self) -> SetInfo:
        """What is served: the split that the session is of."""
        assert self._served is not None  # the constructor has connected
        return self._served

    @property
    def server(self) -> OwnServer | None:
        """The server, where it is this process's own."""
        return self._server

    def session(self) -> Session:
        """Return the session; in a forked child, or after the connection broke, a new one."""
        if self._session is not None and self._session.usable:
            return self._session
        self.close()
        source = self._options.dataset
        if source.startswith("unix:"):
            session = client.connect(source.removeprefix("unix:"))
        else:
            self._server = OwnServer(source, self._options.num_workers or ranks.threads_default())
            session = self._server.session
        self._end = weakref.finalize(self, session.close)  # not __del__: at the interpreter's end modules are half gone
        try:
            self._open(session)
        except BaseException:
            self.close()
            raise
        self._session = session
        return session

    def session_of_rank(self) -> Session:
        """Return the session for an epoch: a new one, too, where this process's rank is not what it was when it was opened.

        Programs make loaders before torch.distributed is initialised, which then says another rank and world. Raises
        ValueError where there are several processes, and nothing says which this is.
        """
        ranks.check_told(self._options.rank)
        if self._session is not None and self._opened_as != self.rank_and_world:
            self.close()
        return self.session()

    @property
    def rank_and_world(self) -> tuple[int, int]:
        """The rank of this process and the world's size, as they are now."""
        return ranks.rank_and_world(self._options.rank, self._options.world)

    def close(self) -> None:
        """Close the connection, and end the server if it is this process's own. Batches that are held stay valid."""
        if self._end is not None:
            self._end()
        if self._server is not None:
            self._server.close()
        self._session = self._server = self._end = None

    def reraise(self, error: errors.ServerError) -> NoReturn:
        """Raise error, with what an own server printed last if its end is the cause."""
        explained = error if self._server is None else self._server.explain(error)
        if explained is error:
            raise error
        raise explained from error

    def _open(self, session: Session) -> None:
        options, (rank, world) = self._options, self.rank_and_world
        request = self._request(rank, world)
        if options.split is None and len(session.sets) > 1:
            names = ", ".join(s.split for s in session.sets)
            raise errors.MissingError(f"imgfeed: the server has {len(session.sets)} splits ({names}): name one with split=")
        try:
            opened = session.open(request)
        except errors.UnsupportedError:
            if options.transport != "auto":
                raise
            opened = session.open({**request, "transport": "socket"})
        served = next(s for s in session.sets if s.split == opened["split"])
        if self._served is None:
            for note in opened.get("notes") or ():
                log.warning("imgfeed: %s", note)
        elif served.fingerprint != self._served.fingerprint:
            raise errors.ServerError(f"imgfeed: {options.dataset} holds other data than when this loader was made")
        self._served, self._opened_as = served, (rank, world)
        if session.ring is not None:
            self._attach(session.ring)

    def _request(self, rank: int, world: int) -> dict[str, Any]:
        """Return the options as docs/format/wire.md's ``open`` has them."""
        o = self._options
        optional = {"split": o.split, "resampler": o.resampler}
        return {
            "transform": o.operations,
            "batch_size": o.batch_size,
            "seed": o.order_seed,
            "shuffle": o.shuffle,
            "policy": o.policy,
            "rank": rank,
            "world": world,
            "layout": o.layout,
            "slots": o.slots,
            "with_params": o.with_params,
            "on_error": o.on_error,
            "bit_exact": o.bit_exact,
            "transport": "socket" if o.transport == "socket" else "shm",
            **{name: value for name, value in optional.items() if value is not None},
        }
