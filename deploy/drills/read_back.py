"""Reads everything that one replica has of a drill's topic, from that replica only.

Slaves and masters answer only below their confirm offset, so this reads what consumers could read there. Replicas give the
same answer to a request as long as their logs are equal: each distinct answer is decoded once.
"""

from __future__ import annotations

import contextlib
import hashlib
import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np

from ...model.clock import monotonic_ms, sleep_ms
from ...model.errors import ConnectionLost, RemoteProtocolError, RequestTimeout, TopicNotFound, ZenitError
from ...record.kernel import decode_batch
from ...remoting.client import RemotingClient
from ...remoting.commands import PullMessages, PullReply
from .ledger import STORED, STORED_ROW, Table, queue_number, read_body

CALL_TIMEOUT_MS: Final = 5_000
MESSAGES_MAX: Final = 1024
READ_BYTES: Final = 1 << 20
AGAIN_MS: Final = 50


class ReadBack:
    """Reads all replicas of one group's `topic`, one after another. One thread.

    `run`: as in the bodies; `group`: the number of the group.
    """

    def __init__(self, client: RemotingClient, topic: str, *, group: int, queues: int, run: int) -> None:
        self._client, self._topic = client, topic
        self._group, self._queues, self._run = group, queues, run
        self._rows: dict[tuple[int, bytes], bytes] = {}  # by queue and the digest of an answer

    def of_replica(self, address: str, *, timeout_ms: int) -> Table:
        """The rows (ledger.STORED) of all queues at the broker with that address.

        Empty if the broker does not know the topic. Raises its error if it keeps refusing, or RequestTimeout.
        """
        deadline_ms = monotonic_ms() + timeout_ms
        rows: list[bytes] = []
        with contextlib.suppress(TopicNotFound):  # lost with all its messages
            for queue_id in range(self._queues):
                rows += self._of_queue(address, queue_id, deadline_ms)
        return np.frombuffer(b"".join(rows), dtype=STORED)

    def _of_queue(self, address: str, queue_id: int, deadline_ms: int) -> Iterator[bytes]:
        offset = 0
        while True:
            request = PullMessages("DRILL", self._topic, queue_id, offset, MESSAGES_MAX, READ_BYTES)
            reply, payload = _ask(self._client, address, request, deadline_ms)
            if reply.count:
                yield self._rows_of(payload, queue_id)
            elif reply.next_offset == offset or offset >= reply.max_offset:
                return
            offset = reply.next_offset

    def _rows_of(self, payload: bytes, queue_id: int) -> bytes:
        number = queue_number(self._group, queue_id)
        answer = number, hashlib.sha256(payload).digest()
        if answer not in self._rows:
            self._rows[answer] = _taken_apart(payload, number, self._run)
        return self._rows[answer]


def _ask(client: RemotingClient, address: str, request: PullMessages, deadline_ms: int) -> tuple[PullReply, bytes]:
    """One reply; a broker that cannot answer now is asked again until the deadline."""
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


def _taken_apart(payload: bytes, number: int, run: int) -> bytes:
    rows = []
    for message in decode_batch(payload):
        producer, sequence = read_body(message.body, run)
        checksum = zlib.crc32(message.body)
        rows.append(
            STORED_ROW.pack(sequence, message.queue_offset, message.physical_offset, checksum, producer, number)
        )
    return b"".join(rows)
