"""What a message may hold before it goes anywhere."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import InvalidName, MessageIllegal, MessageTooLarge
from zenitmq.model.message import BODY_BYTES_MAX, Message, check_message, join_keys
from zenitmq.model.properties import RESERVED


def test_wire_properties_hold_the_senders_own_then_keys_and_tags() -> None:
    message = Message("orders", b"x", tags="paid", keys=["k1", "k2"], properties={"region": "eu"})
    assert list(message.wire_properties().items()) == [("region", "eu"), ("KEYS", "k1 k2"), ("TAGS", "paid")]
    assert Message("orders", b"x").wire_properties() == {}


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(MessageIllegal, match="reserved"):
        Message("orders", b"x", properties={name: "v"}).wire_properties()


@pytest.mark.parametrize("key", ["", "two words", "a\x01", "a\x02"])
def test_keys_that_would_not_be_found_again_are_refused(key: str) -> None:
    with pytest.raises(MessageIllegal):
        join_keys(["good", key])


def test_a_text_is_one_key() -> None:
    assert join_keys("order-1") == "order-1"
    assert join_keys(("a", "b")) == "a b"


def test_checks_before_a_send() -> None:
    check_message(Message("orders", b""))
    check_message(Message("orders", bytes(BODY_BYTES_MAX)))
    with pytest.raises(MessageTooLarge) as refused:
        check_message(Message("orders", bytes(11)), body_bytes_max=10)
    assert (refused.value.size_bytes, refused.value.limit_bytes) == (11, 10)
    with pytest.raises(InvalidName):
        check_message(Message("../orders", b"x"))
    with pytest.raises(MessageIllegal, match="str"):
        check_message(Message("orders", "text"))  # type: ignore[arg-type]
