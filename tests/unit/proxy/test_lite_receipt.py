"""Handles of messages of lite topics, as foreign clients bring them."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import HandleRefused
from zenitmq.proxy.back.lite_receipt import LiteReceipt

RECEIPT = LiteReceipt("lite session-1 7 3 1700000000000", 2, "broker-a", "agents", "chats")
TEXT = "lite session-1 7 3 1700000000000 2 broker-a agents chats"


def test_a_receipt_is_what_it_was() -> None:
    assert RECEIPT.text() == TEXT
    assert LiteReceipt.parse(TEXT) == RECEIPT


def test_a_handle_of_another_kind_is_none() -> None:
    assert LiteReceipt.parse("0 1 2 3 4 5 6 7 8") is None
    assert LiteReceipt.parse("") is None


@pytest.mark.parametrize(
    "text",
    [
        "lite",
        TEXT + " more",
        TEXT.rpartition(" ")[0],
        TEXT.replace(" 2 ", " 3 "),
        TEXT.replace(" 2 ", " -1 "),
        TEXT.replace(" 2 ", " 99999 "),
        TEXT.replace("chats", "a/b"),
        TEXT.replace("session-1", "a%b"),
        TEXT.replace("agents", ""),
    ],
)
def test_a_broken_one_is_refused(text: str) -> None:
    with pytest.raises(HandleRefused):
        LiteReceipt.parse(text)
