"""Exceptions of signal handlers, at every place where one may strike; and a client whose world is the test's.

CPython runs the handlers of signals at the beginning of a function, after a call, and at the jump back of a loop. `Interrupter`
raises at the n-th such place within the client's own code. `Stage` is a client of one broker in one thread: its I/O thread is
`pump`, and whoever waits pumps. A lock that would never be free, and a wait that would never end, are errors here.
"""

from __future__ import annotations

import dis
import heapq
import inspect
import itertools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import zenitmq.client
from zenitmq.client.connection import connection as connections
from zenitmq.client.connection import program_end, waiting
from zenitmq.model.errors import ConnectionLost, ZenitError
from zenitmq.model.get_status import GetStatus
from zenitmq.record.kernel import decode_batch, encode_record
from zenitmq.remoting import commands as c
from zenitmq.remoting.timers import Timer

ROOT = str(Path(zenitmq.client.__file__).parents[1])
CLIENT = (
    *(f"{ROOT}/{folder}/" for folder in ("client", "remoting", "model")),
    "<string>",
)  # the last: methods that dataclasses wrote
TOPIC, BROKER, NAMESRV = "t", "a", "127.0.0.1:1"
_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
RUNS_HANDLERS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD"})


class Interrupted(BaseException):
    """What the handler of a signal raised."""


class Stuck(AssertionError):
    """A wait that nothing would end."""


@cache
def _handled_at(code: CodeType) -> tuple[dict[int, str], Callable[[int], int]]:
    """({offset: name of the instruction}, offset -> which handler of exceptions covers it)."""
    names = {instruction.offset: instruction.opname for instruction in dis.get_instructions(code)}
    entries = dis._parse_exception_table(code)  # type: ignore[attr-defined]

    def handler(offset: int) -> int:
        return next((entry.target for entry in entries if entry.start <= offset < entry.end), -1)

    return names, handler


class Interrupter:
    """Raises Interrupted at the `at`-th place, once; `places` counts those that were passed."""

    def __init__(self, at: int) -> None:
        self._at = at
        self.places = 0
        self.where = ""
        self._last: dict[FrameType, int] = {}
        self._entered: set[FrameType] = set()  # those that have called a function of Python's

    @contextmanager
    def at_work(self) -> Iterator[None]:
        before, on_call = sys.gettrace(), self._on_call
        held = [on_call] * 100  # CPython 3.11.2 drops references too many to one whose callback raised
        sys.settrace(on_call)
        try:
            yield
        finally:
            sys.settrace(before)
            del held
            self._last.clear()
            self._entered.clear()

    def _on_call(self, frame: FrameType, event: str, _arg: object) -> Callable[..., Any] | None:
        if frame.f_back is not None and not frame.f_code.co_flags & _SUSPENDS:
            self._entered.add(frame.f_back)  # no handler runs between its return and the next instruction
        if event != "call" or not frame.f_code.co_filename.startswith(CLIENT):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._on_opcode

    def _on_opcode(self, frame: FrameType, event: str, _arg: object) -> Callable[..., Any]:
        if event != "opcode":
            return self._on_opcode
        last, self._last[frame] = self._last.get(frame, -1), frame.f_lasti
        entered = frame in self._entered
        self._entered.discard(frame)
        names, handler = _handled_at(frame.f_code)
        entered = entered or names[frame.f_lasti] == "GET_AWAITABLE"  # a coroutine was made, by a function of Python's
        # What a handler raises comes out of the instruction that ran it: at the next one only where nothing lies between.
        if names.get(last) in RUNS_HANDLERS and not entered and handler(last) == handler(frame.f_lasti):
            self.places += 1
            if self.places == self._at:
                self.where = (
                    f"{frame.f_code.co_filename.removeprefix(ROOT)}:{frame.f_lineno} {frame.f_code.co_qualname}"
                )
                raise Interrupted(self.where)
        return self._on_opcode


@contextmanager
def alarms(period_s: float, *, at_most: int) -> Iterator[list[None]]:
    """The signals of a program's timer, which grow in number; the main thread's."""
    seen: list[None] = []

    def count(*_: object) -> None:
        seen.append(None)
        if len(seen) == at_most:
            signal.setitimer(signal.ITIMER_REAL, 0)

    before = signal.signal(signal.SIGALRM, count)
    try:
        signal.setitimer(signal.ITIMER_REAL, period_s, period_s)
        yield seen
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class StageLock:
    """A lock of a stage's one thread: whoever would wait for it would wait for ever."""

    def __init__(self) -> None:
        self._is_held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._is_held:
            if not blocking:
                return False
            raise Stuck("a lock that nobody will free")
        self._is_held = True
        return True

    def release(self) -> None:
        if not self._is_held:
            raise RuntimeError("release unlocked lock")
        self._is_held = False

    def locked(self) -> bool:
        return self._is_held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Stage:
    """The world of one client. `now_ms` moves as it waits. Answers come after `delay_ms`, 0 = within the send itself."""

    def __init__(self, delay_ms: int = 1, queues: int = 1) -> None:
        self.now_ms = 1_000_000
        self.delay_ms = delay_ms
        self.queues = queues
        self.cluster_id = ""
        self.keys = None
        self.stored: list[bytes] = []  # bodies, in order
        self.records: dict[int, list[bytes]] = {queue_id: [] for queue_id in range(queues)}
        self.committed: dict[int, int] = {}
        self.sequences: dict[tuple[str, int], int] = {}
        self.members: set[str] = set()
        self.locks: list[StageLock] = []
        self.closed = False
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = itertools.count()
        self._parked: list[tuple[c.PullMessages, Callable[..., None]]] = []

    # ---- time and the I/O thread

    def at(self, delay_ms: float, callback: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now_ms + max(0, round(delay_ms)), next(self._serial), callback))

    def step(self, until_ms: int) -> bool:
        """What is due next, up to a time; False where nothing is."""
        if not self._due or self._due[0][0] > until_ms:
            self.now_ms = max(self.now_ms, until_ms)
            return False
        due_ms, _, callback = heapq.heappop(self._due)
        self.now_ms = max(self.now_ms, due_ms)
        with untraced():
            callback()
        return True

    def pump(self, for_ms: int) -> None:
        until_ms = self.now_ms + for_ms
        while self.step(until_ms):
            pass

    def new_lock(self) -> StageLock:
        lock = StageLock()
        self.locks.append(lock)
        return lock

    def held_locks(self) -> int:
        return sum(lock.locked() for lock in self.locks)

    # ---- as RemotingClient

    def name_cluster(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id

    def on_request(self, *_: object) -> None:
        """Nothing is pushed here."""

    def on_lost(self, *_: object) -> None:
        """Nothing is lost here."""

    def subscribe(self, *_: object) -> None:
        """No name server publishes here."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback, 0)
        self.at(delay_ms, lambda: None if timer.cancelled else callback())
        return timer

    def run_soon(self, callback: Callable[[], None]) -> None:
        self.at(0, callback)

    def every(self, interval_ms: int, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback, interval_ms)

        def again() -> None:
            if not timer.cancelled:
                callback()
                self.at(interval_ms, again)

        self.at(interval_ms, again)
        return timer

    def close(self) -> None:
        self.closed = True

    def call(self, _address: str, request: c.Request, payload: Any = None, *, timeout_ms: int) -> tuple[Any, bytes]:
        with untraced():
            if self.closed:
                raise ConnectionLost(NAMESRV)
            self.now_ms += self.delay_ms
            return self._serve(request, payload)

    def loop_channels(self, *_: object) -> None:
        """None of its own."""

    def send_nowait(
        self, address: str, request: c.Request, payload: Any, *, timeout_ms: int, on_reply: Callable[..., None]
    ) -> None:
        if self.closed:
            raise ConnectionLost(address)
        data = None if payload is None else bytes(payload)  # copied before this returns
        if isinstance(request, c.PullMessages):
            self._pull(request, on_reply, timeout_ms)
            return

        def answer() -> None:
            try:
                reply, body = self._serve(request, data)
            except ZenitError as error:
                on_reply(None, b"", error)
            else:
                on_reply(reply, body, None)

        if self.delay_ms:
            self.at(self.delay_ms, answer)
        else:
            answer()

    # ---- as name server and broker

    def _serve(self, request: c.Request, payload: Any) -> tuple[Any, bytes]:
        if isinstance(request, c.GetRoute):
            queues = ((BROKER, self.queues, self.queues, 6),)
            brokers = (("z", BROKER, ((0, "127.0.0.1:2"),)),)
            return c.RouteReply(queues, brokers, 0, (("z", "id"),)), b""
        if isinstance(request, c.SendSequenced):
            return self._send_sequenced(request, payload), b""
        if isinstance(request, c.SendMessages):
            return self._store(request.queue_id, payload), b""
        if isinstance(request, c.UpdateConsumerOffsets):
            for _, queue_id, offset in request.offsets:
                self.committed[queue_id] = offset
            return c.CommitReply(), b""
        if isinstance(request, c.GetConsumerList):
            return c.ConsumerListReply(tuple(self.members)), b""
        if isinstance(request, c.StartConsuming):
            return c.StartReply(0), b""
        if isinstance(request, c.GetBeginOffsets):
            offsets = tuple((self.committed.get(queue_id, 0), 0) for queue_id in request.queue_ids)
            return c.BeginOffsetsReply(offsets, (0,) * len(offsets)), b""
        if isinstance(request, c.Heartbeat):
            for _group, *_rest in request.consumers:
                self.members.add(request.client_id)
            return c.HeartbeatReply(10_000), b""
        if isinstance(request, c.UnregisterClient):
            self.members.discard(request.client_id)
            return c.Done(), b""
        raise AssertionError(f"nobody answers {request}")

    def _store(self, queue_id: int, payload: Any) -> c.SendReply:
        messages = decode_batch(bytes(payload))
        begin = len(self.records[queue_id])
        for message in messages:
            self.stored.append(message.body)
            at = len(self.records[queue_id])
            self.records[queue_id].append(encode_record(topic=TOPIC.encode(), body=message.body, queue_offset=at))
        for parked in self._parked:
            self._answer_pull(*parked)
        self._parked.clear()
        return c.SendReply(queue_id, begin, begin * 100, self.now_ms, bytes(8))

    def _send_sequenced(self, request: c.SendSequenced, payload: Any) -> Any:
        key = request.producer_id, request.queue_id
        known = self.sequences.get(key, -1)
        last = request.first_sequence + request.count - 1
        if last <= known:
            return c.SequencedReply(request.queue_id, -1, -1, self.now_ms, bytes(8), True, known)
        self.sequences[key] = last
        reply = self._store(request.queue_id, payload)
        return c.SequencedReply(request.queue_id, reply.queue_offset, reply.physical_offset, self.now_ms, bytes(8))

    def _pull(self, request: c.PullMessages, on_reply: Callable[..., None], timeout_ms: int) -> None:
        if request.queue_offset >= len(self.records[request.queue_id]):
            self._parked.append((request, on_reply))
        else:
            self.at(self.delay_ms, lambda: self._answer_pull(request, on_reply))

    def _answer_pull(self, request: c.PullMessages, on_reply: Callable[..., None]) -> None:
        records, at = self.records[request.queue_id], request.queue_offset
        end = min(len(records), at + 3)  # a few at a time, so that there are several answers
        on_reply(c.PullReply(GetStatus.FOUND, end, 0, len(records), end - at), b"".join(records[at:end]), None)


@contextmanager
def untraced() -> Iterator[None]:
    """What the rest of the world does is not interrupted: it is another thread's, or another process's."""
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)


class StageSignal:
    """As `waiting._ThreadSignal`: who waits for it lets the world go on."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._has_come = False

    def set(self) -> None:
        self._has_come = True

    async def wait(self, timeout_ms: int | None) -> bool:
        stage = self._stage
        until_ms = stage.now_ms + (3_600_000 if timeout_ms is None else max(0, timeout_ms))
        while not self._has_come:
            if not stage.step(until_ms):
                if timeout_ms is None:
                    raise Stuck("a signal that nobody sets")
                return False
        return True


@contextmanager
def on(stage: Stage) -> Iterator[None]:
    """Clients that are made within have this world."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "Lock", stage.new_lock)
        patch.setattr(connections, "new_remoting", lambda *_: stage)
        patch.setattr(connections, "local_ip_towards", lambda _: bytes((127, 0, 0, 1)))
        patch.setattr(connections, "_open", {})
        patch.setattr(connections, "_lock", stage.new_lock())
        patch.setattr(program_end, "_open", {})
        patch.setattr(waiting, "_ThreadSignal", lambda: StageSignal(stage))
        patch.setattr(waiting, "sleep_ms", stage.pump)
        for name, module in list(sys.modules.items()):
            if name.startswith("zenitmq.client.") and hasattr(module, "monotonic_ms"):
                patch.setattr(module, "monotonic_ms", lambda: stage.now_ms)
        yield
