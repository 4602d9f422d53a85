"""The raw path's replica: receives and writes what the raw server has written, and reports how much it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...remoting.raw_socket import RawDealer
from ..processes import WorkerChannel
from .raw_server import FOLLOW, RawFiles, RawServerJob, listened, obey

_WAIT_MS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RawCopyJob:
    """`address`: the raw server's for copies. The rest is as in the server's job."""

    address: str
    directory: str
    warm: bool
    sync: bool
    segments: int
    segment_bytes: int = 128 << 20


def follow(job: RawCopyJob, channel: WorkerChannel) -> None:
    """Runs until the parent closes the channel. Words: see the raw server."""
    files = RawFiles(
        RawServerJob(
            directory=job.directory,
            warm=job.warm,
            sync=job.sync,
            reply_header="",
            segments=job.segments,
            segment_bytes=job.segment_bytes,
        )
    )
    try:
        with RawDealer(job.address) as dealer:
            dealer.send(FOLLOW)
            if channel.ready({}):
                words = listened(channel)
                while _take(job, dealer, files) or not words or obey(words.popleft(), channel, files):
                    pass
    finally:
        files.close()


def _take(job: RawCopyJob, dealer: RawDealer, files: RawFiles) -> bool:
    """Takes what has come; False if there is nothing."""
    payload = dealer.receive_payload(_WAIT_MS)
    if payload is None:
        return False
    files.append(payload)
    if job.sync:
        files.sync()
    dealer.send(len(payload).to_bytes(8, "big"))
    return True
