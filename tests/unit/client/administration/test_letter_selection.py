"""Which dead letters a selection means, and under which name its redrive is remembered."""

from __future__ import annotations

import pytest

from zenitmq.client.administration.letter_selection import EVERY_LETTER, LetterSelection
from zenitmq.client.administration.redrive_plan import REDRIVER
from zenitmq.model.names import check_group


class FakeMessage:
    """What a selection asks of a message."""

    def __init__(self, **properties: str) -> None:
        self.properties = properties


class FakeLetter:
    """What a selection asks of a letter."""

    def __init__(self, topic: str = "orders", reason: str = "Timeout: 3 s", tag: str | None = "buy") -> None:
        self.origin_topic = topic
        self.reason = reason
        self.message = FakeMessage() if tag is None else FakeMessage(TAGS=tag)


@pytest.mark.parametrize(
    ("selection", "letter", "expected"),
    [
        (EVERY_LETTER, FakeLetter(topic="", reason="", tag=None), True),
        (LetterSelection(topics=frozenset({"orders"})), FakeLetter(), True),
        (LetterSelection(topics=frozenset({"trades"})), FakeLetter(), False),
        (LetterSelection(tags=frozenset({"buy", "sell"})), FakeLetter(), True),
        (LetterSelection(tags=frozenset({"sell"})), FakeLetter(), False),
        (LetterSelection(tags=frozenset({"sell"})), FakeLetter(tag=None), False),
        (LetterSelection(reason="timeout"), FakeLetter(), True),
        (LetterSelection(reason="time out"), FakeLetter(), False),
        (LetterSelection(topics=frozenset({"orders"}), reason="no"), FakeLetter(), False),
    ],
)
def test_what_is_meant(selection: LetterSelection, letter: FakeLetter, expected: bool) -> None:
    assert selection.matches(letter) is expected  # type: ignore[arg-type]


def test_each_selection_is_remembered_under_a_name_of_its_own() -> None:
    selections = [
        EVERY_LETTER,
        LetterSelection(topics=frozenset({"orders"})),
        LetterSelection(tags=frozenset({"orders"})),
        LetterSelection(reason="orders"),
    ]
    names = [selection.redriver for selection in selections]
    assert names[0] == REDRIVER
    assert len(set(names)) == len(names)
    assert all(check_group(name) for name in names)
    assert [selection.is_everything for selection in selections] == [True, False, False, False]


def test_the_name_is_the_same_for_the_same_selection() -> None:
    one = LetterSelection(topics=frozenset({"a", "b"}), reason="Timeout")
    same = LetterSelection(topics=frozenset({"b", "a"}), reason="timeout")
    assert one.redriver == same.redriver
