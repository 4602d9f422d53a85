"""A process of a soak: `python -m tests.soak.worker ROLE`, with its job as JSON in the first line of standard input.

It ends when standard input says `stop` or ends. What it does and sees goes line by line to a file (records.py), so that its
own memory holds nothing of it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from zenitmq import StoredMessage
from zenitmq.model.errors import ZenitError

from .records import OK, Blocks, Handled, Moved, Record, Refused, Sent, Wrong, encode, identity_of

BLOCKS_EACH_S = 10.0


def now_ms() -> float:
    """The wall clock."""
    return time.time_ns() / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a worker is told. `directory`: for its files. `pace`: 1 = as planned, 2 = twice the messages a second. `scale`:
    of the times for which members stay and are away; less than 1 in a short run. `stream`: whether a streaming query
    takes part."""

    name: str
    namesrv: str
    records: str
    directory: str
    seed: int
    pace: float
    scale: float
    stream: bool


class Worker:
    """What the threads of a worker share: its job, its records, and whether it is to stop. Any thread."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.stopping = threading.Event()
        self.chance = random.Random(f"{job.seed}.{job.name}")
        self._file = open(job.records, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 (as long as the process)
        self._lock = threading.Lock()

    def write(self, record: Record) -> None:
        """Into its file at once."""
        with self._lock:
            self._file.write(encode(record))

    def handled(self, group: str, member: str, message: StoredMessage) -> None:
        """A message that this member of a group got."""
        stream, number, due_ms = identity_of(message.body)
        queue = message.queue
        self.write(
            Handled(
                group,
                member,
                f"{queue.topic}/{queue.broker_name}/{queue.queue_id}",
                message.queue_offset,
                stream,
                number,
                now_ms(),
                message.stored_at_ms,
                due_ms,
                message.reconsume_times,
            )
        )

    def sent(self, topic: str, stream: str, number: int, begun_ms: float, error: BaseException | None = None) -> None:
        """What became of a message."""
        self.write(Sent(topic, stream, number, begun_ms, now_ms(), OK if error is None else type(error).__name__))

    def moved(self, group: str, member: str, how: str) -> None:
        """A member joined or left."""
        self.write(Moved(group, member, now_ms(), how))

    def refused(self, what: str, error: ZenitError) -> None:
        """An error of ours, where one may come."""
        self.write(Refused(what, now_ms(), type(error).__name__))

    def wrong(self, what: str, error: BaseException | str) -> None:
        """Something that must not be; what is raised is told with where."""
        text = error if isinstance(error, str) else "".join(traceback.format_exception(error))
        self.write(Wrong(f"{self.job.name}, {what}", now_ms(), text))

    def guarded(self, what: str, work: Callable[[], None]) -> Callable[[], None]:
        """`work` as the body of a thread: what it raises is written down."""

        def body() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 (top of a thread)
                self.wrong(what, error)

        return body

    def run_all(self, works: dict[str, Callable[[], None]]) -> None:
        """Runs each in a thread of its own, to the end of all."""
        threads = [threading.Thread(target=self.guarded(name, work), name=name) for name, work in works.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def lives(self, what: str, life: Callable[[float], None], *, seconds: float) -> Callable[[], None]:
        """Threads one after the other, each for so long: sockets and stores of threads must go with them. `life(until_s)`."""

        def one_after_the_other() -> None:
            while not self.stopping.is_set():
                until_s = time.monotonic() + seconds
                thread = threading.Thread(target=self.guarded(what, lambda until_s=until_s: life(until_s)))
                thread.start()
                thread.join()

        return one_after_the_other

    def paced(self, rate: float, until_s: float, act: Callable[[], None]) -> None:
        """Calls `act` so often a second, times the job's pace, until then or until it is to stop. What is late is not made
        up for."""
        gap_s = 1 / (rate * self.job.pace)
        due_s = time.monotonic()
        while due_s < until_s and not self.stopping.is_set():
            act()
            due_s = max(due_s + gap_s, time.monotonic())
            self.stopping.wait(due_s - time.monotonic())

    # ---- beside the work

    def listen(self) -> None:
        """Waits for the word to stop."""
        for line in sys.stdin:
            if line.strip() == "stop":
                break
        self.stopping.set()

    def count_blocks(self) -> None:
        """Writes down now and then how many blocks Python's objects take, of those that live, and what malloc has given out.

        Without a collection what is garbage in a circle would count, up to a quarter of all objects, and what Python keeps
        for objects to come.
        """
        while not self.stopping.wait(BLOCKS_EACH_S):
            gc.collect()
            self.write(Blocks(self.job.name, now_ms(), sys.getallocatedblocks(), malloc_in_use_kib()))


class _Mallinfo2(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    )


_mallinfo2 = ctypes.CDLL(None).mallinfo2
_mallinfo2.restype = _Mallinfo2


def malloc_in_use_kib() -> int:
    """What malloc has given out and not got back: of C code, and of Python's larger blocks. Holes between are not in it."""
    found = _mallinfo2()
    return int(found.uordblks + found.hblkhd) >> 10


def main(role: str) -> None:
    """Runs a role to its end."""
    from .roles import ROLES

    job = Job(**json.loads(sys.stdin.readline()))
    worker = Worker(job)
    for beside in (worker.listen, worker.count_blocks):
        threading.Thread(target=beside, daemon=True).start()
    worker.guarded(role, lambda: ROLES[role]()(worker))()
    sys.stderr.flush()
    os._exit(0)  # the thread that listens holds standard input


if __name__ == "__main__":
    main(sys.argv[1])
