"""The server that a loader is fed by, and the session open on it: waited for when it is not there yet, or is gone."""

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, TypeVar

from .. import errors
from .._arguments.arguments import Options
from .._arguments.paths import Joined
from .._arguments.vision import Pipeline
from . import client, ranks, wire
from .client import Session
from .launcher import OwnServer
from .ring import Ring
from .sets import SetInfo
from .targets import second_of

log = logging.getLogger("imgfeed")

Answer = TypeVar("Answer")
Ranks = tuple[int, int]  # a rank, and the world's size

_WAIT_MAX = 0.5  # seconds between two looks for an absent server
_STARTS_MAX = 3  # of the loader's own server, in a row


def retry(
    attempt: Callable[[], Answer],
    patience: float,
    *,
    deadline: float | None = None,
    quiet: bool = False,
    sleep: Callable[[float], object] = time.sleep,
) -> Answer:
    """Return attempt's result. While it raises LostError (no server is there), try again for patience seconds.

    The log says once that it waits, unless quiet. deadline is a time of time.monotonic(). Raises the last LostError if no
    server comes in time, and TimeoutError at the deadline.
    """
    begin, wait = time.monotonic(), 0.01
    while True:
        try:
            return attempt()
        except errors.LostError as e:
            now = time.monotonic()
            if now >= begin + patience:
                if patience:
                    raise errors.LostError(f"{e} (waited {now - begin:.0f} s)") from e
                raise
            if deadline is not None and now >= deadline:
                raise errors.TimeoutError(f"imgfeed: no batch came in time: {e}") from e
            if not quiet:
                log.warning("%s; waiting up to %g s", str(e), patience)
                quiet = True
        end = begin + patience if deadline is None else min(deadline, begin + patience)
        sleep(max(0.0, min(wait, end - now)))
        wait = min(1.5 * wait, _WAIT_MAX)


class Form(NamedTuple):
    """What of a session's batches may change between epochs."""

    transform: str | Pipeline
    size: int | None
    batch_size: int

    def request(self, session: Session) -> dict[str, Any]:
        """Return it in the form of ``change`` in docs/format/wire.md."""
        size = {} if self.size is None else {"size": self.size}
        return {"transform": Options.operations(self.transform, session.operations), "batch_size": self.batch_size, **size}


class Service:
    """A server and a session on it: opened at once, and anew in a forked child or after the connection was lost.

    It ends with the last object that uses it, such as an iteration that outlives its loader, or with the interpreter.
    """

    def __init__(self, options: Options, attach: Callable[[Ring], None] | None = None) -> None:
        """Open the data. attach is called with the ring of every session that has one."""
        self._options = options
        sizes = options.size.values() if isinstance(options.size, dict) else [options.size_at(0)]
        #: How sessions are opened: with room for the largest images.
        first, *later = options.transforms.values()
        self._largest = Form(first, max(sizes) if all(sizes) else None, options.batch_size)
        self._form = self._largest
        self._attach = attach
        #: The present session, which may be lost without notice; or None.
        self.current: Session | None = None
        #: The server, where it is this process's own.
        self.server: OwnServer | None = None
        #: Seconds to wait for an absent server; an own one is started again at once, unless this is 0.
        self.patience = options.reconnect
        self._end: weakref.finalize[[], Any] | None = None
        self._served: SetInfo | None = None
        self._opened_as: Ranks | None = None  # rank and world that the session was opened with; None: the server's
        self._served_as: Ranks | None = None  # those that the server gave when nothing said them
        self._opening = threading.RLock()  # held while a session is opened
        self._opening_pid = os.getpid()  # its threads may hold it
        #: Whether the loader was closed, and not used since.
        self.closed = False
        #: How many lost sessions were replaced.
        self.reconnects = 0
        for transform in (first, *later, first) if later else (first,):  # those of later epochs are refused now, too
            self.session()
            self.take(self._largest._replace(transform=transform))
        self.session()

    @property
    def served(self) -> SetInfo:
        assert self._served is not None  # the constructor has connected
        return self._served

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what opens the same data again, for the dataset and the sampler of a loader."""
        return Service, (self._options,)

    def opening(self) -> threading.RLock:
        """Return the lock that is held while a session is opened, or an iteration begun."""
        if self._opening_pid != os.getpid():
            self._opening, self._opening_pid = threading.RLock(), os.getpid()
        return self._opening

    def session(self, *, of_rank: bool = False) -> Session:
        """Return the session; in a forked child, or after the connection ended, a new one.

        of_rank is for an epoch: the session is a new one, too, if this process's rank has changed since the last was opened.
        Raises ValueError if there are several processes, and nothing says which this is.
        """
        if of_rank:
            ranks.check_told(self._options.rank)
            if self.current is not None and self._opened_as != self._own_ranks:
                self._drop()
        if self.current is not None and self.current.connection.usable:
            return self.current
        with self.opening():
            if self.current is not None and self.current.connection.usable:
                return self.current
            wire.end_with_interpreter()
            self.reconnects += self.current is not None and not self.current.connection.inherited
            self._drop()
            self.closed = False
            return self._open(self._own_ranks)

    def take(self, form: Form) -> None:
        """Change the form of later epochs. A session ends if its ring has no room for it."""
        if form == self._form:
            return
        self._form, session = form, self.current
        if session is None or not session.connection.usable:
            return  # the next one is opened so
        try:
            if not session.change(form.request(session)):
                self._largest = form
                self._drop()
        except errors.LostError:
            pass  # as the epoch's start finds, too

    def again(self, lost: Session, deadline: float | None = None) -> Session:
        """Return a session like a lost one, on the next server, or on one that this starts again if it is the loader's own.

        Raises LostError when none is there in time, and TimeoutError at deadline, a time of time.monotonic().
        """
        with self.opening():
            if self.current is not None and self.current is not lost and self.current.connection.usable:
                return self.current  # another thread has met the loss, too
            self._check_open()
            begin, opened_as = time.monotonic(), self._opened_as
            if self.server is not None:
                self.server.kill()  # it may be unable to end
            self._drop()
            session = self._open(opened_as, deadline, quiet=True)
            self.reconnects += 1
            if not lost.connection.broken_off:
                log.warning("imgfeed: reconnected after %.1f s", time.monotonic() - begin)
            return session

    def ask(self, question: Callable[[Session], Answer]) -> Answer:
        """Return the answer to a question that changes nothing: where the server is lost, the next one is asked again."""
        session = self.session()
        try:
            return question(session)
        except errors.LostError as e:
            if not self.patience or self.closed:
                self.reraise(e)
            log.warning("%s; reconnecting", str(self.explained(e)))
            return question(self.again(session))

    @property
    def _own_ranks(self) -> Ranks | None:
        """The rank of this process and the world's size, as they are now; None: they are the server's to say."""
        return ranks.rank_and_world(self._options.rank, self._options.world)

    @property
    def rank_and_world(self) -> Ranks:
        """The rank and the world's size that batches are of: this process's, or those of the server's --rank and --world."""
        return self._own_ranks or self._served_as or (0, 1)

    def close(self) -> None:
        """Close the connection, and end the server if it is this process's own. Batches in use stay valid."""
        self.closed = True
        self._drop()

    def _drop(self) -> None:
        if self._end is not None:
            self._end()
        if self.server is not None:
            self.server.close()
        self.current = self.server = self._end = None

    def explained(self, error: errors.ServerError) -> errors.ServerError:
        """Return error, with the last output of the loader's own server if that has ended."""
        return error if self.server is None else self.server.explain(error)

    def reraise(self, error: errors.ServerError) -> NoReturn:
        """Raise error, with the last output of the loader's own server if that has ended."""
        explained = self.explained(error)
        try:
            if explained is error:
                raise error
            raise explained from error
        finally:
            del error, explained  # their traceback has this frame: together they would keep a lost ring until it is collected

    def _open(self, opened_as: Ranks | None, deadline: float | None = None, *, quiet: bool = False) -> Session:
        """Open a session. Wait up to reconnect= for somebody else's server; start an own one that ends again, a few times."""

        def attempt() -> Session:
            try:
                session = self._connected()
                self._end = weakref.finalize(self, session.close)  # not __del__: at the interpreter's end modules are half gone
                self._agree(session, opened_as)
                self._check_open()
            except errors.LostError as e:
                try:
                    self.reraise(e)
                finally:
                    self._drop()
            except BaseException:
                self._drop()
                raise
            self.current = session
            return session

        def sleep(seconds: float) -> None:
            time.sleep(seconds)
            self._check_open()

        if self._options.socket is not None:
            return retry(attempt, self.patience, deadline=deadline, quiet=quiet, sleep=sleep)
        for _ in range(_STARTS_MAX - 1 if self.patience else 0):
            try:
                return attempt()
            except errors.LostError as e:
                log.warning("%s; starting it again", str(e))
        return attempt()

    def _connected(self) -> Session:
        """Return a connection to the server: to somebody else's, or to one that this starts."""
        o = self._options
        if o.socket is not None:
            return client.connect(o.socket, client.HELLO_TIMEOUT if self.patience else client.REPLY_TIMEOUT)
        threads = o.num_workers or ranks.threads_default()
        metrics = os.environ.get("IMGFEED_METRICS") if o.metrics is None else o.metrics
        stores = {name: getattr(o, name) for name in ("cache", "cache_size", "allow_source", "feeders", "tls")}
        paths = o.dataset.paths if isinstance(o.dataset, Joined) else (o.dataset,)
        self.server = OwnServer(*paths, threads=threads, metrics=metrics, classes_apart=o.classes_apart, **stores)
        return self.server.session

    def _check_open(self) -> None:
        if self.closed:
            raise errors.ServerError("imgfeed: the loader was closed while another thread waited for the server")

    def _agree(self, session: Session, opened_as: Ranks | None) -> None:
        """Open a session on a connection, on the same data as the sessions before it."""
        options = self._options
        request = self._request(session, opened_as)
        if options.split is None and len(session.sets) > 1:
            names = ", ".join(s.split for s in session.sets)
            raise errors.MissingError(f"imgfeed: the server has {len(session.sets)} splits ({names}): name one with split=")
        split = next((s for s in session.sets if options.split in (None, s.split)), None)
        target = options.target if split is None else second_of(split, options)
        try:
            opened = session.open(request, options.fields, target)
        except errors.UnsupportedError:
            if options.transport != "auto":
                raise
            opened = session.open({**request, "transport": "socket"}, options.fields, target)
        if self._form != self._largest:
            session.change(self._form.request(session))
        served = next(s for s in session.sets if s.split == opened["split"])
        if self._served is None:
            for note in opened.get("notes") or ():
                log.warning("imgfeed: %s", note)
        elif other := served.differs(self._served):
            raise errors.ServerError(f"imgfeed: {options.dataset} holds other data than when this loader was made: {other}")
        if opened_as is None:
            given = (opened["rank"], opened["world"])
            if self._served_as not in (None, given):
                raise errors.ServerError(
                    f"imgfeed: {options.dataset} serves rank {given[0]} of {given[1]} now, and served another one when this "
                    "loader was made: start it with the same --rank and --world, or give rank= and world="
                )
            self._served_as = given
        self._served, self._opened_as = served, opened_as
        if session.ring is not None and self._attach is not None:
            self._attach(session.ring)

    def _request(self, session: Session, opened_as: Ranks | None) -> dict[str, Any]:
        """Return the options in the form of ``open`` in docs/format/wire.md."""
        o = self._options
        recorded = o.with_params == "records"
        rank, world = opened_as or (None, None)
        optional = {"split": o.split, "resampler": o.resampler, "with_repetitions": recorded or o.keyed or None}
        optional |= {"buckets": o.buckets, "boxes": o.boxes, "boxes_unit": o.boxes_unit}
        return {
            **self._largest.request(session),
            **{name: getattr(o, name) for name in ("shuffle", "policy", "slots", "on_error", "bit_exact", "selects")},
            "seed": o.order_seed,
            "layout": o.layout_sent,
            "with_params": o.with_params and not recorded,
            "transport": "socket" if o.transport == "socket" else "shm",
            **{name: value for name, value in {**optional, "rank": rank, "world": world}.items() if value is not None},
        }
