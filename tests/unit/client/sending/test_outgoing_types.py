"""What a caller may give to be sent, and what wrong types are told."""

from __future__ import annotations

from array import array
from datetime import datetime, timedelta

import pytest

from zenitmq.client.connection.cluster import parse_addresses
from zenitmq.client.sending.outgoing import fill_bodies, message_parts, posted_parts
from zenitmq.client.sending.ready_batch import BATCH_BYTES_MAX, ReadyBatches
from zenitmq.model.errors import InvalidParameter, MessageIllegal, MessageTooLarge, ZenitError
from zenitmq.model.message import Message
from zenitmq.model.properties import RESERVED
from zenitmq.record.kernel import Accumulator, decode_batch

NEVER = 1 << 22  # compress nothing


def accumulator(capacity: int) -> Accumulator:
    return Accumulator(b"orders", capacity, id_prefix=bytes(10), born_host=bytes(8))


@pytest.mark.parametrize(
    "body", [bytearray(b"abcd"), memoryview(b"abcd"), memoryview(b"a.b.c.d.")[::2], array("B", b"abcd")]
)
def test_any_buffer_is_a_body(body: object) -> None:
    assert message_parts(Message("t", body), NEVER)[0] == b"abcd"  # type: ignore[arg-type]
    assert posted_parts(body, None, None, NEVER)[0] == b"abcd"  # type: ignore[arg-type]


def test_what_is_derived_from_bytes_is_a_body() -> None:
    class Frame(bytes):
        pass

    assert type(message_parts(Message("t", Frame(b"abcd")), NEVER)[0]) is bytes
    assert type(posted_parts(Frame(b"abcd"), None, None, NEVER)[0]) is bytes


def test_a_buffer_may_change_once_it_was_given() -> None:
    body = bytearray(b"before")
    parts = message_parts(Message("t", body), NEVER)
    body[:] = b"behind"
    assert parts[0] == b"before"


HALF = "a\ud800"  # half of a surrogate pair: bytes of a command line that are not UTF-8 become such

WRONG_MESSAGES = [
    ("t", "expected a Message, found str"),
    (Message("t", None), "body is NoneType"),
    (Message("t", "text"), "encode"),
    (Message("t", 7), "body is int"),
    (Message("t", b"x", tags=7), "tags is int"),
    (Message("t", b"x", keys=7), "keys is int"),
    (Message("t", b"x", keys=("a", 7)), "key 7 is int"),
    (Message("t", b"x", properties=["a"]), "properties is list"),
    (Message("t", b"x", properties={"a": 7}), "property 'a' is int"),
    (Message("t", b"x", properties={7: "a"}), "property name 7 is int"),
    (Message("t", b"x", properties={"a": HALF}), "UTF-8"),
    (Message("t", b"x", properties={HALF: "a"}), "UTF-8"),
    (Message("t", b"x", flag="x"), "flag is str"),
    (Message("t", b"x", delay=5), "timedelta"),
    (Message("t", b"x", deliver_at=5), "datetime"),
    (Message("t", b"x", deliver_at=datetime(2026, 1, 1)), "time zone"),  # noqa: DTZ001  # that is the point
    (Message("t", b"x", delay_level="2"), "1 to 18"),
    (Message("t", b"x", delay=timedelta(seconds=1), delay_level=2), "nothing beside delay"),
]


@pytest.mark.parametrize(("message", "words"), WRONG_MESSAGES)
def test_what_no_message_holds_is_refused_in_words(message: object, words: str) -> None:
    with pytest.raises((MessageIllegal, InvalidParameter), match=words):
        message_parts(message, NEVER)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(MessageIllegal, match="reserved"):
        message_parts(Message("t", b"x", properties={name: "v"}), NEVER)
    with pytest.raises(MessageIllegal, match="reserved"):
        posted_parts(b"x", None, None, NEVER, properties={name: "v"})


@pytest.mark.parametrize(
    "given",
    [
        {"body": None},
        {"body": "text"},
        {"tags": 7},
        {"keys": 7},
        {"keys": [7]},
        {"properties": 7},
        {"properties": {"a": 1}},
        {"sharding_key": 7},
    ],
)
def test_what_no_post_holds_is_refused(given: dict[str, object]) -> None:
    fields = {"body": b"x", "tags": None, "keys": None, **given}
    with pytest.raises(ZenitError):
        posted_parts(compress_over=NEVER, **fields)  # type: ignore[arg-type]


def test_a_posts_properties_and_key_are_in_the_record() -> None:
    batch = accumulator(4096)
    batch.begin(1, 1)
    assert batch.append(*posted_parts(b"x", "tag", "k", NEVER, properties={"region": "eu"}, sharding_key="user-7"))
    buffer, used, *_ = batch.swap(bytearray(4096))
    (message,) = decode_batch(bytes(buffer[:used]))
    assert (message.body, message.tags, message.keys) == (b"x", "tag", ("k",))
    assert message.properties["region"] == "eu"
    assert message.properties["__SHARDINGKEY"] == "user-7"


@pytest.mark.parametrize("given", [{"tags": HALF}, {"keys": HALF}, {"keys": ("k", HALF)}])
def test_tags_and_keys_that_utf_8_cannot_carry_are_refused(given: dict[str, str]) -> None:
    batch = accumulator(4096)
    batch.begin(1, 1)
    with pytest.raises(MessageIllegal, match="UTF-8"):
        batch.append(*message_parts(Message("t", b"x", **given), NEVER))  # type: ignore[arg-type]
    assert batch.append(*message_parts(Message("t", b"y", tags="a", keys="k"), NEVER))
    buffer, used, *_ = batch.swap(bytearray(4096))
    assert [message.body for message in decode_batch(bytes(buffer[:used]))] == [b"y"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"keys": ["k", 7]}, "keys is int"),
        ({"keys": ["k", ["k", 7]]}, "key 7 is int"),
        ({"tags": ["t", 7]}, "tags is int"),
        ({"keys": ["k", HALF]}, "UTF-8"),
        ({"tags": ["t", HALF]}, "UTF-8"),
    ],
)
def test_a_column_of_tags_or_keys_holds_texts(given: dict[str, list[str]], words: str) -> None:
    batch = accumulator(4096)
    batch.begin(1, 1)
    with pytest.raises(MessageIllegal, match=words):
        fill_bodies([b"a", b"b"], NEVER, **given)(batch)


@pytest.mark.parametrize("bodies", [b"ab", "ab", bytearray(b"ab")])
def test_one_body_is_no_sequence_of_bodies(bodies: object) -> None:
    with pytest.raises(InvalidParameter, match="a sequence of bodies"):
        fill_bodies(bodies, NEVER)  # type: ignore[arg-type]


def test_bodies_may_be_buffers() -> None:
    batch = accumulator(4096)
    batch.begin(1, 1)
    assert fill_bodies([b"a", bytearray(b"b"), memoryview(b"c")], NEVER)(batch)  # type: ignore[list-item]
    buffer, used, *_ = batch.swap(bytearray(4096))
    assert [message.body for message in decode_batch(bytes(buffer[:used]))] == [b"a", b"b", b"c"]


def test_a_batch_that_is_too_large_is_refused_by_its_true_size() -> None:
    batches = ReadyBatches(lambda _, capacity: accumulator(capacity), keep=False)
    one = batches.make("orders", fill_bodies([bytes(1000)], NEVER))
    with pytest.raises(MessageTooLarge) as refused:
        batches.make("orders", fill_bodies([bytes(1000)] * 20_000, NEVER))
    assert refused.value.size_bytes == 20_000 * sum(one.sizes())
    assert refused.value.limit_bytes == BATCH_BYTES_MAX
    assert batches.make("orders", fill_bodies([bytes(1000)], NEVER)).count == 1


def test_name_servers_are_text() -> None:
    with pytest.raises(InvalidParameter, match="addresses like"):
        parse_addresses("namesrv", ["127.0.0.1:9876"])  # type: ignore[arg-type]
