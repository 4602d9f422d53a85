"""Everything that one replica holds of a drill's topic, asked of that replica itself and no other.

A slave answers below its confirm offset, a master likewise, so this reads what consumers could read from there.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np

from ...model.clock import monotonic_ms, sleep_ms
from ...model.errors import ConnectionLost, RemoteProtocolError, RequestTimeout, TopicNotFound, ZenitError
from ...remoting.client import RemotingClient
from ...remoting.commands import PullMessages, PullReply
from ...store.record_kernel import decode_batch
from .ledger import STORED, STORED_ROW, Table, queue_number, read_body

CALL_TIMEOUT_MS: Final = 5_000
MESSAGES_MAX: Final = 1024
READ_BYTES: Final = 1 << 20
AGAIN_MS: Final = 50


def read_replica(
    client: RemotingClient, address: str, topic: str, *, group: int, queues: int, run: int, timeout_ms: int
) -> Table:
    """The rows (ledger.STORED) of all queues of `topic` at the broker of that address, of the `group`-th group.

    Empty where the broker does not know the topic. Raises its own error where it goes on refusing, or RequestTimeout.
    """
    deadline_ms = monotonic_ms() + timeout_ms
    rows: list[bytes] = []
    with contextlib.suppress(TopicNotFound):  # lost with all that was in it
        for queue_id in range(queues):
            number = queue_number(group, queue_id)
            rows += _read_queue(client, address, topic, queue_id, number, run, deadline_ms)
    return np.frombuffer(b"".join(rows), dtype=STORED)


def _read_queue(
    client: RemotingClient, address: str, topic: str, queue_id: int, number: int, run: int, deadline_ms: int
) -> Iterator[bytes]:
    offset = 0
    while True:
        request = PullMessages("DRILL", topic, queue_id, offset, MESSAGES_MAX, READ_BYTES)
        reply, payload = _ask(client, address, request, deadline_ms)
        if reply.count:
            yield _rows_of(payload, number, run)
        elif reply.next_offset == offset or offset >= reply.max_offset:
            return
        offset = reply.next_offset


def _ask(client: RemotingClient, address: str, request: PullMessages, deadline_ms: int) -> tuple[PullReply, bytes]:
    """One reply; a broker that cannot answer just now is asked again until the deadline."""
    while True:
        left_ms = deadline_ms - monotonic_ms()
        if left_ms <= 0:
            raise RequestTimeout(f"reading all of {request.topic} at {address}", 0)
        try:
            reply, payload = client.call(address, request, timeout_ms=min(left_ms, CALL_TIMEOUT_MS))
        except ZenitError as error:
            if not (error.retriable or isinstance(error, ConnectionLost)) or left_ms < 2 * AGAIN_MS:
                raise
            sleep_ms(AGAIN_MS)
            continue
        if not isinstance(reply, PullReply):
            raise RemoteProtocolError(f"a pull was answered with {type(reply).__name__}")
        return reply, payload


def _rows_of(payload: bytes, number: int, run: int) -> bytes:
    rows = []
    for message in decode_batch(payload):
        producer, sequence = read_body(message.body, run)
        checksum = zlib.crc32(message.body)
        rows.append(
            STORED_ROW.pack(sequence, message.queue_offset, message.physical_offset, checksum, producer, number)
        )
    return b"".join(rows)
