"""The engines that run in this process, by name. Whoever opens one holds it.

A `memory` engine stays until the program ends, or until it is dropped: what a producer sent is there for the consumer that
comes after it. A `local` one closes its directory with the last client that holds it. One that has ended by itself is begun
anew by the next client.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ..client.connection import program_end
from ..client.connection.engine_url import EMBEDDED, LOCAL, MEMORY, EngineUrl
from ..model.errors import InvalidParameter, StoreFormatError, ZenitError
from ..remoting.client import RemotingClient
from ..store.config import StoreConfig
from ..store.log.segment import disk_error
from ..store.queues.engine_choice import FILE, engine_of
from .embedded.engine import EmbeddedEngine, OnAppended
from .embedded.queue_logs import is_embedded
from .engine import EngineThreads
from .memory_directory import MemoryDirectory

log = logging.getLogger(__name__)

MEMORY_STORE: Final = StoreConfig(
    segment_bytes=16 << 20,
    preallocate_segments=0,
    index_slots=65_536,
    index_entries=262_144,
    retention_bytes=1 << 30,
)
LOCAL_STORE: Final = StoreConfig(
    segment_bytes=64 << 20, preallocate_segments=1, index_slots=500_000, index_entries=2_000_000
)
_UNUSABLE: Final = frozenset({errno.EEXIST, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG})
_running: dict[EngineUrl, HeldEngine] = {}
_has_run = False  # an engine, in this process
_is_child = False  # forked from a process in which one has
_lock = threading.Lock()


class HeldEngine:
    """See `client.connection.engines.Engine`. Guarded by the lock of this module."""

    def __init__(self, url: EngineUrl) -> None:
        self._url = url  # its directory has no other name here
        self._holds = 0
        self._own = MemoryDirectory() if url.scheme == MEMORY else None
        try:
            self._engine = _engine_of(url) if self._own is None else _memory_engine(self._own.path)
            self._engine.__enter__()
        except OSError as error:
            self._remove()
            raise _unusable(url, error) from error
        except BaseException:
            self._remove()
            raise
        self.address = self._engine.address

    def new_client(self) -> RemotingClient:
        """See Engine."""
        return self._engine.new_client()

    def intercept(self, on_appended: OnAppended) -> Callable[[], None]:
        """See EmbeddedEngine; of no other."""
        assert isinstance(self._engine, EmbeddedEngine)
        return self._engine.intercept(on_appended)

    def hold(self) -> HeldEngine:
        """One more holds it."""
        self._holds += 1
        return self

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself, as it does when its disk fails: it serves nobody any more."""
        return isinstance(self._engine, EngineThreads) and self._engine.has_ended

    def release(self) -> None:
        """See Engine."""
        with _lock:
            self._holds -= 1
            if not self._holds and self._own is None:
                self.leave()

    def drop(self) -> None:
        """See Engine."""
        with _lock:
            if _running.get(self._url) is not self:
                return
            del _running[self._url]
        self._close()

    def leave(self) -> None:
        """Closes it, under the lock of this module. Clients that hold it are told so by their next calls."""
        if _running.get(self._url) is self:
            del _running[self._url]
            self._close()

    def _close(self) -> None:
        try:
            self._engine.__exit__()
        finally:
            self._remove()

    def _remove(self) -> None:
        if self._own is not None:
            self._own.remove()


def _memory_engine(directory: str) -> EngineThreads:
    return EngineThreads(directory, MEMORY_STORE, name=MEMORY)


def _engine_of(url: EngineUrl) -> EngineThreads | EmbeddedEngine:
    """Of a directory. Raises StoreFormatError if the other kind made it."""
    directory = url.place
    if url.scheme == EMBEDDED:
        return EmbeddedEngine(directory)
    if is_embedded(directory):
        raise StoreFormatError(directory, f"an embedded engine made it; open it by {EngineUrl(EMBEDDED, directory)}")
    store = replace(LOCAL_STORE, consume_queue=engine_of(directory) or FILE)  # what made its queues opens them
    return EngineThreads(directory, store, name=LOCAL)


def _unusable(url: EngineUrl, error: OSError) -> ZenitError:
    """Why a directory could not be opened."""
    if error.errno in _UNUSABLE:
        where = f" ({error.filename})" if error.filename else ""
        return InvalidParameter("namesrv", str(url), f"a directory that may be written: {error.strerror}{where}")
    return disk_error(error, f"opening {url}")


def open_engine(url: EngineUrl) -> HeldEngine:
    """See `client.connection.engines.open_engine`. Raises InvalidParameter if the directory cannot be used, and in a forked
    child of a program that had one: RocksDB's threads are missing there, and it waits for them for ever."""
    global _has_run
    if _is_child:
        raise InvalidParameter(
            "namesrv",
            str(url),
            "a cluster, in a forked child of a program with engines; or start it by spawn, not by fork",
        )
    if url.scheme != MEMORY:
        url = url._replace(place=os.path.realpath(url.place))
    with _lock:
        engine = _running.get(url)
        if engine is not None and engine.has_ended:
            log.warning("an engine has ended by itself and is begun anew engine=%s", url)
            engine.leave()
            engine = None
        if engine is None:
            program_end.run_last(close_all)
            _has_run = True
            engine = _running[url] = HeldEngine(url)
        return engine.hold()


def close_all() -> None:
    """At the end of the program, after all clients."""
    with _lock:  # one that is being opened is waited for
        engines = list(_running.values())
    for engine in engines:
        engine.drop()


def _forget() -> None:
    """In a forked child: the threads are the parent's, and so are the directories."""
    global _lock, _is_child
    _lock = threading.Lock()
    _is_child = _has_run
    _running.clear()


os.register_at_fork(after_in_child=_forget)
