"""The handles of messages of lite topics, as texts."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import HandleRefused, InvalidName
from zenitmq.model.handles.lite_handle import LiteHandle


def test_a_handle_is_read_as_it_was_written() -> None:
    handle = LiteHandle("session-42", 7, 3, 1_764_000_000_000)
    assert LiteHandle.parse(handle.text()) == handle
    assert handle.name == (7, 1_764_000_000_000)


def test_a_handle_of_another_kind_is_left_to_others() -> None:
    assert LiteHandle.parse("cDEgYnJva2Vy.c2ln") is None
    assert LiteHandle.parse("") is None


@pytest.mark.parametrize(
    "text",
    [
        "lite",
        "lite a 1 1",
        "lite a 1 1 1 1",
        "lite a -1 1 1",
        "lite a 1 0 1",
        "lite a 1 33 1",
        "lite a 1 1 x",
        "lite a 1 1 ٣",
        f"lite a {'9' * 20} 1 1",
    ],
)
def test_a_malformed_handle_is_refused(text: str) -> None:
    with pytest.raises(HandleRefused):
        LiteHandle.parse(text)


@pytest.mark.parametrize("name", ["", "a/b", "a$b", "x" * 65])
def test_a_wrong_lite_topic_is_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        LiteHandle.parse(f"lite {name} 1 1 1")
