"""The end of the program: clients that were left open send, commit and leave, within a time limit.

Python calls this once all threads but the daemons have ended, so the I/O threads still run. In a child of `multiprocessing`
(before Python 3.13) Python does not: there a thread waits for the others instead, and Python waits for that thread. If the
process ends at once (`os._exit`, SIGKILL, a signal that Python has no handler for), nothing is sent. A forked child
does not know its parent's clients.

Messages go first, so that no consumer commits inputs before their results are stored. Lost messages are
reported in one line on stderr, and the process ends with exit code 1.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final, Protocol

from ...model.clock import monotonic_ms
from ...model.errors import ClientClosed, ZenitError

log = logging.getLogger(__name__)

EXIT_MS: Final = 10_000
"""The time limit of all of it, without the sign-off of one client."""


@dataclass(frozen=True, slots=True)
class Unsent:
    """Unacknowledged messages, and why the first of them failed."""

    messages: int
    reason: str


class OpenClient(Protocol):
    """A client that is open at the end of the program. Called in any one thread."""

    def unsent(self) -> int:
        """How many messages wait to be sent, or for their answers."""

    def send_rest(self, deadline_ms: int) -> None:
        """Sends what waits, and waits for the answers until the deadline at most. Raises no expected errors."""

    def end(self, deadline_ms: int) -> Unsent | None:
        """Closes. Returns the unacknowledged messages, if there are any."""


_open: Final[
    dict[int, OpenClient]
] = {}  # changed by single operations only: in any thread, and during a garbage collection
_last: Final[dict[Callable[[], None], None]] = {}
_serial: Final = count()
_has_child_hook = False
_is_over = False  # the clients were closed


def add(client: OpenClient) -> int:
    """Until `remove`, the client is closed when the program ends. Returns what `remove` takes."""
    key = next(_serial)
    _open[key] = client
    _hook_child()
    return key


def remove(key: int) -> None:
    """The client is closed."""
    _open.pop(key, None)


def warn_unsent(what: str, messages: int) -> None:
    """A ResourceWarning: `what` was not closed, and has unsent messages."""
    warnings.warn(
        f"{what} was not closed while {messages} of its messages were not acknowledged; call close()",
        ResourceWarning,
        stacklevel=2,
    )


def end_clients(exit_ms: int) -> Unsent | None:
    """Closes all that is open. Returns the unacknowledged messages of all clients together. A KeyboardInterrupt meanwhile ends
    the waiting, not the report."""
    deadline_ms = monotonic_ms() + exit_ms
    clients = sorted(_open.items(), key=lambda item: item[0])
    for _, client in clients:
        waiting = client.unsent()
        if waiting:
            with contextlib.suppress(Warning):  # a filter made the warning an error: the end goes on
                warn_unsent(repr(client), waiting)
    lost: list[Unsent] = []
    try:
        for _, client in clients:
            client.send_rest(deadline_ms)
    except KeyboardInterrupt:
        deadline_ms = monotonic_ms()
    for key, client in reversed(clients):  # the newest first, like nested `with` blocks
        remove(key)
        try:
            unsent = client.end(deadline_ms)
        except KeyboardInterrupt:
            deadline_ms = monotonic_ms()
            unsent = Unsent(client.unsent(), "interrupted")
        except ZenitError as error:
            log.warning("closing a client at exit failed client=%r error=%s", client, error)
            unsent = Unsent(client.unsent(), str(error))
        if unsent is not None and unsent.messages:
            lost.append(unsent)
    return Unsent(sum(each.messages for each in lost), lost[-1].reason) if lost else None


def tell(unsent: Unsent | None) -> None:
    """One line on stderr."""
    if unsent is None or sys.stderr is None:
        return
    with contextlib.suppress(OSError, ValueError):  # it is closed
        print(
            f"zenitmq: {unsent.messages} messages were not acknowledged before the program ended ({unsent.reason}); "
            "close() the producer, and look at what it raises",
            file=sys.stderr,
            flush=True,
        )


def run_last(work: Callable[[], None]) -> None:
    """Does this work at the end of the program, after all clients were closed; once, however often it is asked for.

    Raises ClientClosed if that has begun.
    """
    if _is_over:
        raise ClientClosed("the program ends, so its engine")
    _last[work] = None
    _hook_child()


def _at_exit() -> None:
    if _end_all() is not None:
        _end_with_code_1()


def _end_all() -> Unsent | None:
    global _is_over
    unsent = end_clients(EXIT_MS) if _open else None
    _is_over = True
    while _last:
        _last.popitem()[0]()
    tell(unsent)
    return unsent


def _end_with_code_1() -> None:
    """Python has already chosen its exit code. So the C library is asked to end the process with ours, after Python
    has ended."""
    with contextlib.suppress(OSError, AttributeError):  # a C library without such a function: only the line is printed
        libc = ctypes.CDLL(None)
        register = libc["__cxa_atexit"]
        register(libc["_exit"], ctypes.c_void_p(1), None)
        register(libc["fflush"], None, None)  # called before that: the last one comes first


def _hook_child() -> None:
    """In a child of multiprocessing, once: its end calls no function of `atexit` before Python 3.13."""
    global _has_child_hook
    multiprocessing = sys.modules.get("multiprocessing.process")
    if _has_child_hook or multiprocessing is None or multiprocessing.parent_process() is None:
        return
    _has_child_hook = True
    from multiprocessing.util import Finalize

    Finalize(None, _start_child_end, exitpriority=0)


def _start_child_end() -> None:
    if _open or _last:
        threading.Thread(target=_end_child, args=(threading.current_thread(),), name="zenit-exit").start()


def _end_child(main: threading.Thread) -> None:
    """Waits as Python does, for all threads but the daemons."""
    own = threading.current_thread()
    while others := [
        thread for thread in threading.enumerate() if not thread.daemon and thread is not own and thread is not main
    ]:
        others[0].join()
    _end_all()


def _forget() -> None:
    """In a forked child: the parent's clients are not ours."""
    global _has_child_hook, _is_over
    _open.clear()
    _last.clear()
    _has_child_hook = _is_over = False


os.register_at_fork(after_in_child=_forget)
atexit.register(_at_exit)
