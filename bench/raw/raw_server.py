"""The raw path's broker: receives into an arena, writes what it drained with one `pwritev`, answers. No broker logic.

It costs the machine what any broker must cost: the same frames through the same sockets, the same bytes into files created
in the same way. *cold*: fresh, preallocated files, whose pages the kernel must first allocate. *warm*: files written once
already, with cached pages, like recycled segments. A real broker's share is relative to this.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

from ...remoting.base_socket import Waiter
from ...remoting.raw_socket import RawRouter
from ...remoting.server_socket import shared_payload
from ...store.log.segment import MappedFile, create_allocated
from ..processes import WorkerChannel
from ..trips.stamps import Stamps
from ..trips.thread_times import thread_times
from ..trips.trip_stages import SERVER_RECEIVE, SERVER_SEND, SERVER_WRITE
from .cached_pages import touch_pages

_ZEROS: Final = bytes(8)
_WAIT_MS: Final = 50
_DRAIN_REQUESTS: Final = 256
READ: Final = b"read"  # the begin of a header that requests `read_bytes` of the files instead of a write
STAMPS: Final = "stamps"
"""A word to a server: save the stamps, and tell what each thread has used. Answered with {threads}."""
FOLLOW: Final = b"follow"  # a copy's first word; each later one says how many more bytes it has, 8 bytes big-endian


@dataclass(frozen=True, slots=True, kw_only=True)
class RawServerJob:
    """`reply_header`: hex of a real reply's header frame. `sync`: fdatasync before the answer (to all that was drained).

    `copies`: other processes that each store everything; a request is answered when they have it. `stamps_path`: where the
    word STAMPS puts the times of each stage; "" = they are not noted.
    """

    directory: str
    warm: bool
    sync: bool
    reply_header: str
    segments: int
    copies: int = 0
    stamps_path: str = ""
    segment_bytes: int = 128 << 20
    drain_bytes: int = 1 << 20
    frame_bytes_max: int = 8 << 20
    read_bytes: int = 1 << 20
    slice_bytes: int = (
        1 << 20
    )  # of a read page: each slice is a frame, because a queue's records are not contiguous in a log


class RawFiles:
    """Preallocated files written front to back, one after another. Warm ones are overwritten again from the start.

    Written cold files stay until the end, though they are not needed: the pages of a deleted file are reused at once, and
    on a virtual machine recently used pages are ten times faster to write than pages that its host must first allocate. A
    broker's log gets the latter, because it deletes nothing.
    """

    def __init__(self, job: RawServerJob) -> None:
        self._job = job
        self._files: list[MappedFile] = []
        self._written: list[MappedFile] = []
        self._index = self._at = 0
        self._read_at = 0
        self.ran_out = False
        self.stamps: Stamps | None = None
        self._create()

    def _create(self) -> None:
        """Creates the missing files."""
        for number in range(len(self._written) + len(self._files), len(self._written) + self._job.segments):
            path = os.path.join(self._job.directory, f"raw-{number:03d}")
            create_allocated(path, self._job.segment_bytes)
            self._files.append(MappedFile(path, self._job.segment_bytes))
        if self._job.warm:
            filler = os.urandom(1 << 20)
            for file in self._files:
                for at in range(0, self._job.segment_bytes, len(filler)):
                    os.pwrite(file.open_fd(), filler, at)
                os.fdatasync(file.fd)

    def renew(self) -> None:
        """Starts again: warm files from their begin, cold ones with fresh files."""
        if not self._job.warm and (self._index or self._at):
            used = self._job.segments if self.ran_out else self._index + 1
            self._written += self._files[:used]
            del self._files[:used]
            self._create()
        if self._job.warm:
            for file in self._files:
                touch_pages(file.path, file.size_bytes)
        self._index = self._at = 0
        self.ran_out = False

    def append(self, data: memoryview) -> None:
        """One `pwritev` of the drained bytes and the eight zero bytes behind them."""
        if self._at + len(data) + len(_ZEROS) > self._job.segment_bytes:
            self._index += 1
            self._at = 0
            if self._index == len(self._files):
                self._index = 0
                self.ran_out = not self._job.warm  # cold: from here on the pages are not fresh
        os.pwritev(self._files[self._index].open_fd(), [data, _ZEROS], self._at)
        self._at += len(data)

    @property
    def stamps_path(self) -> str:
        """Where stamps are saved."""
        return self._job.stamps_path

    def sync(self) -> None:
        """Makes the current file durable."""
        os.fdatasync(self._files[self._index].open_fd())

    def read(self) -> list[memoryview]:
        """The next `read_bytes` of the files, through their maps, as slices."""
        size, step = self._job.read_bytes, self._job.slice_bytes
        index, at = divmod(self._read_at, self._job.segment_bytes)
        self._read_at = (self._read_at + size) % (self._job.segment_bytes * len(self._files))
        mapped = self._files[index].map
        return [mapped[begin : min(begin + step, at + size)] for begin in range(at, at + size, step)]

    def close(self) -> None:
        """Closes and removes the files."""
        for file in (*self._written, *self._files):
            file.close()
            os.unlink(file.path)


def serve(job: RawServerJob, channel: WorkerChannel) -> None:
    """Runs until the parent closes the channel. Words: "go", then "renew" and "state", each answered with {ran_out}."""
    arena = memoryview(bytearray(job.drain_bytes + job.frame_bytes_max))
    files = RawFiles(job)
    files.stamps = raw_stamps() if job.stamps_path else None
    try:
        with (
            RawRouter("127.0.0.1:0", job.frame_bytes_max) as router,
            RawRouter("127.0.0.1:0", job.frame_bytes_max) as copies,
        ):
            if channel.ready({"address": router.address, "copies_address": copies.address}):
                words = listened(channel)
                if job.copies:
                    _loop_with_copies(job, channel, router, copies, files, arena, words)
                else:
                    _loop(job, channel, router, files, arena, words)
    finally:
        files.close()


def raw_stamps() -> Stamps:
    """From now on this process notes its stages, by the numbers of `trip_stages`."""
    stamps = Stamps()
    for call, (owner, method) in _WATCHED.items():
        stamps.watch(owner, method, call)
    return stamps


_WATCHED: Final[dict[int, tuple[type, str]]] = {
    SERVER_RECEIVE: (RawRouter, "drain"),
    SERVER_WRITE: (RawFiles, "append"),
    SERVER_SEND: (RawRouter, "reply"),
}


def listened(channel: WorkerChannel) -> deque[str]:
    """The parent's words from now on, received by a thread; "" is the last."""
    words: deque[str] = deque()
    threading.Thread(target=_listen, args=(channel, words), daemon=True).start()
    return words


def _listen(channel: WorkerChannel, words: deque[str]) -> None:
    """Thread: passes the parent's words to the loop; "" ends it."""
    while word := channel.next_word():
        words.append(word)
    words.append("")


def _loop(
    job: RawServerJob, channel: WorkerChannel, router: RawRouter, files: RawFiles, arena: memoryview, words: deque[str]
) -> None:
    header = bytes.fromhex(job.reply_header)
    while True:
        identities, headers, used = router.drain(
            arena, wait_ms=_WAIT_MS, requests_max=_DRAIN_REQUESTS, bytes_max=job.drain_bytes
        )
        if not identities and words and not obey(words.popleft(), channel, files):
            return
        if used:
            files.append(arena[:used])
            if job.sync:
                files.sync()
        for identity, asked in zip(identities, headers, strict=False):
            router.reply(identity, (header, *files.read()) if asked.startswith(READ) else (header,))


def _loop_with_copies(
    job: RawServerJob,
    channel: WorkerChannel,
    router: RawRouter,
    copies: RawRouter,
    files: RawFiles,
    arena: memoryview,
    words: deque[str],
) -> None:
    """The same, and sends what was written to each copy; as with replicas, these have sockets of their own."""
    header = bytes.fromhex(job.reply_header)
    waiter = Waiter()
    waiter.add(router.pollable)
    waiter.add(copies.pollable)
    held: dict[bytes, int] = {}  # {the copy's identity: the bytes it has}
    waiting: deque[tuple[int, bytes]] = deque()  # answers: (send when this many bytes are stored, to whom)
    written = 0
    while True:
        readable = waiter.wait(_WAIT_MS)
        if not readable and words and not obey(words.popleft(), channel, files):
            return
        if copies.pollable in readable:
            for identity, told in zip(*_drained(job, copies, arena)[:2], strict=True):
                held[identity] = 0 if told == FOLLOW else held[identity] + int.from_bytes(told, "big")
        if router.pollable in readable:
            identities, _, used = _drained(job, router, arena)
            written += used
            files.append(arena[:used])
            if job.sync:
                files.sync()
            payload = shared_payload(arena[:used])
            for identity in held:
                copies.reply(identity, (header, payload))
            waiting.extend((written, identity) for identity in identities)
        everywhere = min(held.values()) if len(held) == job.copies else -1
        while waiting and waiting[0][0] <= everywhere:
            router.reply(waiting.popleft()[1], (header,))


def _drained(job: RawServerJob, router: RawRouter, arena: memoryview) -> tuple[list[bytes], list[bytes], int]:
    return router.drain(arena, wait_ms=0, requests_max=_DRAIN_REQUESTS, bytes_max=job.drain_bytes)


def obey(word: str, channel: WorkerChannel, files: RawFiles) -> bool:
    """Executes the parent's word and answers it; False at the end."""
    if not word:
        return False
    if word == STAMPS:
        if files.stamps is not None:
            files.stamps.save(files.stamps_path)
        channel.result({"threads": thread_times(os.getpid())})
        return True
    ran_out = files.ran_out
    if word == "renew":
        files.renew()
    channel.result({"ran_out": ran_out})
    return True
