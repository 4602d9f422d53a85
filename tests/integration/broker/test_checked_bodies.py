"""A body that has not its checksum comes into a broker by no request, and one that is stored already can be handled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zenitmq.model.errors import MessageIllegal
from zenitmq.model.properties import encode_properties
from zenitmq.model.sequence import sequence_room
from zenitmq.record.kernel import encode_record
from zenitmq.remoting import commands

WHOLE, LATER = b"whole", b"TIMER_DELAY_MS\x011\x02"


def batch(topic: str, properties: bytes) -> bytes:
    """Two messages, of which the second has not its checksum."""
    first, second = (encode_record(topic=topic.encode(), body=body, properties=properties) for body in (WHOLE, b"hurt"))
    return first + second[:8] + bytes(4) + second[12:]


@pytest.mark.parametrize(
    ("request_of", "properties"),
    [
        (lambda topic: commands.SendMessages(topic, 0, 2, "g"), b""),
        (lambda topic: commands.SendDelayed(topic, 0, 2, "g"), LATER),
        (lambda topic: commands.SendSequenced(topic, 0, 2, "g", "p-1", 0), sequence_room(3)),
        (lambda topic: commands.SendDelayedSequenced(topic, 0, 2, "g", "p-1", 0), LATER + sequence_room(3)),
    ],
    ids=["plain", "delayed", "sequenced", "delayed and sequenced"],
)
def test_a_batch_is_refused_whole_and_told_which_message_it_was(
    broker: Any, request_of: Callable[[str], commands.Request], properties: bytes
) -> None:
    broker.create("trades")
    written = broker.written()
    first = encode_record(topic=b"trades", body=WHOLE, properties=properties)
    with pytest.raises(MessageIllegal, match=rf"body checksum .* message 1 .* at byte {len(first)};"):
        broker.call(request_of("trades"), batch("trades", properties))
    assert broker.written() == written
    broker.call(request_of("trades"), first + first)
    assert broker.written() > written


def test_a_reply_is_held_to_its_checksum_too(broker: Any) -> None:
    topic = f"{broker.config.cluster}_REPLY_TOPIC"
    named = encode_properties({"CORRELATION_ID": "c", "REPLY_TO_CLIENT": "nobody"})
    reply = encode_record(topic=topic.encode(), body=b"reply", properties=named)
    with pytest.raises(MessageIllegal, match="body checksum"):
        broker.call(commands.SendReplyMessage(topic), reply[:8] + bytes(4) + reply[12:])


def test_the_checksum_is_of_what_travels(broker: Any, record: Callable[..., bytes]) -> None:
    """A body that says it is compressed is neither unpacked nor looked into."""
    broker.create("trades")
    sent = record("trades", b"no zlib at all", sys_flag=1)
    broker.send("trades", sent)
    assert broker.pull("trades")[1][0].body_as_stored == b"no zlib at all"
