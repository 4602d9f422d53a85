"""What replicas answer is taken apart once where it is the same, and for itself where it is not. No broker is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from zenitmq.deploy.drills import read_back
from zenitmq.deploy.drills.ledger import STORED_ROW
from zenitmq.deploy.drills.read_back import ReadBack
from zenitmq.model.errors import TopicNotFound
from zenitmq.remoting.commands import PullMessages, PullReply

QUEUES = 2


class ScriptedReplicas:
    """A client of brokers that hold, queue by queue, one answer each: {address: {queue id: bytes}}."""

    def __init__(self, held: Mapping[str, Mapping[int, bytes]]) -> None:
        self._held = held

    def call(self, address: str, request: PullMessages, *, timeout_ms: float) -> tuple[PullReply, bytes]:
        if address not in self._held:
            raise TopicNotFound(request.topic)
        payload = b"" if request.queue_offset else self._held[address][request.queue_id]
        return PullReply(status=0, next_offset=1, min_offset=0, max_offset=1, count=len(payload)), payload


@pytest.fixture
def taken_apart(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, int]]:
    """The answers that were taken apart; a row of each tells its length and its queue."""
    seen = []

    def take(payload: bytes, number: int, run: int) -> bytes:
        seen.append((payload, number))
        return STORED_ROW.pack(len(payload), 0, 0, 0, 0, number)

    monkeypatch.setattr(read_back, "_taken_apart", take)
    return seen


def read(held: Mapping[str, Mapping[int, bytes]], *addresses: str) -> list[Any]:
    client: Any = ScriptedReplicas(held)
    whole = ReadBack(client, "t", group=0, queues=QUEUES, run=1)
    return [whole.of_replica(address, timeout_ms=1000) for address in addresses]


def test_equal_answers_are_taken_apart_once(taken_apart: list[tuple[bytes, int]]) -> None:
    one, other = read({"a": {0: b"xx", 1: b"yyy"}, "b": {0: b"xx", 1: b"yyy"}}, "a", "b")
    assert taken_apart == [(b"xx", 0), (b"yyy", 1)]
    assert np.array_equal(one, other)
    assert one["sequence"].tolist() == [2, 3]


def test_an_answer_that_differs_or_is_of_another_queue_is_taken_apart_for_itself(
    taken_apart: list[tuple[bytes, int]],
) -> None:
    one, other = read({"a": {0: b"xx", 1: b"xx"}, "b": {0: b"xx", 1: b"xyz"}}, "a", "b")
    assert taken_apart == [(b"xx", 0), (b"xx", 1), (b"xyz", 1)]
    assert one["queue"].tolist() == [0, 1]
    assert other["sequence"].tolist() == [2, 3]


def test_a_replica_that_lost_the_topic_holds_nothing(taken_apart: list[tuple[bytes, int]]) -> None:
    (rows,) = read({}, "a")
    assert len(rows) == 0
    assert not taken_apart
