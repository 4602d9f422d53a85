"""What the brokers keep of a query that writes: its queues, and the batch at hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zenitmq.model.errors import StoreFormatError
from zenitmq.model.queue import MessageQueue
from zenitmq.pipeline.reading.offsets import QueueKey
from zenitmq.pipeline.writing.batch_pins import NO_BATCH, Pin, begun, parse_pin, pin_name, pin_text
from zenitmq.remoting.commands.document_version import version_of

QUEUES = tuple(MessageQueue("t", broker, queue_id) for broker in ("a", "b") for queue_id in range(2))
ENDS = {QueueKey("t", "a", 0): 7, QueueKey("t", "b", 1): 9}


def test_a_batch_begins_where_the_queues_end() -> None:
    pin = begun(QUEUES, 4, "try", ENDS, {("t", "a"): 11, ("u", "b"): 12})
    assert pin == Pin(QUEUES, 4, "try", (7, 0, 0, 9), (("a", 11),))
    assert parse_pin("t", pin_text(pin)) == pin
    assert version_of(pin_text(pin)) == 5
    assert version_of(pin_text(begun(QUEUES, 0, "try", {}, {}))) == 1, "above that of a pin without a batch"


def test_a_pin_of_an_older_version_tells_of_queues_alone() -> None:
    assert parse_pin("t", '{"queues":[["a",0],["a",1]]}') == Pin(QUEUES[:2])
    assert pin_text(Pin(QUEUES[:2])) == '{"queues":[["a",0],["a",1]]}'
    assert Pin(QUEUES).batch == NO_BATCH
    assert pin_name("q", "t") == "q/sink/t"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"queues":[]}', '{"queues":[["a"]]}', '{"queues":[["a","x"]]}', "[" * 9999]
)
def test_what_is_no_list_of_queues_is_told(text: str) -> None:
    with pytest.raises(StoreFormatError, match="of topic t"):
        parse_pin("t", text)


@pytest.mark.parametrize(
    "changed",
    [
        {"begins": [1]},
        {"begins": [1, 2, 3, -1]},
        {"begins": [1, 2, 3, 1 << 63]},
        {"begins": None},
        {"version": "x"},
        {"version": float("inf")},
        {"incarnations": [1]},
        {"incarnations": {"a": None}},
    ],
)
def test_a_batch_whose_places_cannot_be_read_is_told(changed: dict[str, Any]) -> None:
    document = json.loads(pin_text(begun(QUEUES, 4, "try", ENDS, {})))
    with pytest.raises(StoreFormatError, match="of topic t"):
        parse_pin("t", json.dumps(document | changed))
