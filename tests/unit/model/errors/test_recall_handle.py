"""RocketMQ's recall handle."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenitmq.model.errors import InvalidParameter
from zenitmq.model.handles.recall_handle import RecallHandle


def test_the_text_is_rocketmq_s() -> None:
    handle = RecallHandle("trades", "broker-a", 1_700_000_000_000, "7F000001")
    assert handle.encode() == base64.urlsafe_b64encode(b"v1 trades broker-a 1700000000001 7F000001").decode()
    assert RecallHandle.parse(handle.encode()) == handle


def test_a_message_id_may_have_spaces() -> None:
    handle = RecallHandle("trades", "broker-a", 1_700_000_000_000, "order 7  of Ann ")
    assert RecallHandle.parse(handle.encode()) == handle


def text(words: str) -> str:
    return base64.urlsafe_b64encode(words.encode()).decode()


@pytest.mark.parametrize(
    "handle",
    [
        "",
        "%%%",
        "é",
        "a" * 2000,
        text("v2 t b 5 id"),
        text("v1 t b 5"),
        text("v1 t b 0 id"),
        text("v1 t b -5 id"),
        text(f"v1 t b {1 << 62} id"),
        text("v1 t b x id"),
        text("v1 bad/topic b 5 id"),
        text("v1 t bad/broker 5 id"),
        text("v1 t b 5 "),
        base64.urlsafe_b64encode(b"v1 \xff b 5 id").decode(),
    ],
)
def test_what_is_no_handle_is_refused(handle: str) -> None:
    with pytest.raises(InvalidParameter):
        RecallHandle.parse(handle)


@given(st.text(max_size=200))
def test_any_text_is_a_handle_or_refused(words: str) -> None:
    try:
        handle = RecallHandle.parse(words)
    except InvalidParameter:
        return
    assert RecallHandle.parse(handle.encode()) == handle
