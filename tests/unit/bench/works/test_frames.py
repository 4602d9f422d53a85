"""Ready batches are what a broker takes, and no unique id comes twice."""

from __future__ import annotations

import pytest

from zenitmq.bench.works.frames import TAG, bodies, ready_batches
from zenitmq.record.kernel import decode_batch


def test_bodies_differ_and_have_the_size() -> None:
    made = bodies(100, 32)
    assert len(set(made)) == 100
    assert {len(body) for body in made} == {32}


@pytest.mark.parametrize(("batch", "keys", "tags"), [(1, 0, False), (256, 0, False), (7, 2, True)])
def test_a_ready_batch_holds_what_was_asked_for(batch: int, keys: int, tags: bool) -> None:
    made = ready_batches("orders", size=128, batch=batch, keys=keys, tags=tags, count=3)
    assert len(made) == 3
    messages = [message for data in made for message in decode_batch(data)]
    assert len(messages) == 3 * batch
    assert {len(message.body) for message in messages} == {128}
    assert {message.topic for message in messages} == {"orders"}
    assert {message.tags for message in messages} == {TAG if tags else None}
    assert {len(message.keys) for message in messages} == {keys}
    assert len({message.message_id for message in messages}) == 3 * batch
    if keys:
        assert len({key for message in messages for key in message.keys}) == 3 * batch * keys


def test_ids_stay_different_past_the_16_bits_that_count() -> None:
    made = ready_batches("t", size=0, batch=32_000, count=5)
    ids = {message.message_id for data in made for message in decode_batch(data)}
    assert len(ids) == 5 * 32_000


def test_large_messages_make_few_batches() -> None:
    assert len(ready_batches("t", size=1 << 20, batch=64)) == 2
