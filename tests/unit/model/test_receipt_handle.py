"""Receipt handles: what was signed comes back, anything else is refused by name."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from zenitmq.model.errors import HandleRefused
from zenitmq.model.handles.receipt_handle import KEY_BYTES, ReceiptHandle, split_index, with_index

KEY = bytes(range(KEY_BYTES))
HANDLE = ReceiptHandle("broker-a", "billing", "trades", 3, 1 << 40, 32, 1_795_679_515_792, 30_000)


def signed(words: str) -> str:
    """As one who has the key, and writes what he likes."""
    said = base64.urlsafe_b64encode(words.encode())
    digest = hmac.digest(KEY, said, hashlib.sha256)[:16]
    return f"{said.decode()}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def test_it_comes_back_and_needs_no_key_to_be_read() -> None:
    text = HANDLE.sign(KEY)
    assert ReceiptHandle.parse(text, KEY) == HANDLE
    assert ReceiptHandle.read(text) == HANDLE
    assert split_index(with_index(text, 31)) == (text, 31)


def test_whoever_has_not_the_key_cannot_make_one() -> None:
    text = HANDLE.sign(KEY)
    with pytest.raises(HandleRefused, match="forged"):
        ReceiptHandle.parse(HANDLE.sign(bytes(KEY_BYTES)), KEY)
    for index in range(len(text)):
        changed = text[:index] + ("A" if text[index] != "A" else "B") + text[index + 1 :]
        with pytest.raises(HandleRefused):
            ReceiptHandle.parse(changed, KEY)


@pytest.mark.parametrize(
    "words",
    [
        "p2 broker-a billing trades 3 7 2 1000 30000",
        "p1 broker-a billing trades 3 7 0 1000 30000",
        "p1 broker-a billing trades 3 7 33 1000 30000",
        "p1 broker-a billing trades 3 7 2 1000",
        "p1 broker-a billing trades 3 7 2 1000 30000 9",
        "p1 broker-a billing trades -3 7 2 1000 30000",
        "p1 broker-a billing trades 3 7 2 1000 " + "9" * 20,
        "p1",
        "",
    ],
)
def test_what_says_nothing_sensible_is_malformed(words: str) -> None:
    with pytest.raises(HandleRefused, match="malformed"):
        ReceiptHandle.parse(signed(words), KEY)


@pytest.mark.parametrize("text", ["", "no dot", "ä.b", "x" * 1025 + ".y"])
def test_what_is_no_handle_is_malformed(text: str) -> None:
    with pytest.raises(HandleRefused, match="malformed"):
        ReceiptHandle.read(text)


@pytest.mark.parametrize(
    "text", ["", "5", "handle.signature.32", "handle.signature.-1", "handle.signature.٣", "h.s.007"]
)
def test_an_index_is_one_of_a_part(text: str) -> None:
    with pytest.raises(HandleRefused, match="malformed"):
        split_index(text)
