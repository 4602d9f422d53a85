"""`zenit message query` asks for page after page until it has what was wanted."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.cli.commands.messages import message
from zenitmq.client.administration.message_query import QueryPage
from zenitmq.model.clock import datetime_of_ms
from zenitmq.model.errors import RequestTimeout, TopicNotFound

MOMENT = datetime_of_ms(1_700_000_000_000)


class Pages:
    """Answers with the pages given, one after the other; an error is raised."""

    def __init__(self, *pages: Any) -> None:
        self.pages = list(pages)
        self.asked: list[tuple[int, str | None]] = []
        self.reports: list[tuple[int, str]] = []

    def ask(self, count: int, cursor: str | None) -> QueryPage:
        self.asked.append((count, cursor))
        page = self.pages.pop(0)
        if isinstance(page, BaseException):
            raise page
        return page

    def all(self, maximum: int) -> tuple[list[Any], str | None]:
        return message._all_pages(self.ask, maximum, None, lambda *told: self.reports.append(told))


def page(messages: str, cursor: str | None) -> QueryPage:
    return QueryPage(list(messages), cursor, 10, MOMENT)  # type: ignore[arg-type]


def test_pages_follow_one_another_until_there_are_enough() -> None:
    pages = Pages(page("ab", "1"), page("", "2"), page("cd", "3"))
    assert pages.all(4) == (["a", "b", "c", "d"], "3")
    assert pages.asked == [(4, None), (2, "1"), (2, "2")]
    assert [examined for examined, _ in pages.reports] == [10, 20, 30]


def test_the_last_page_ends_it() -> None:
    assert Pages(page("ab", "1"), page("c", None)).all(9) == (["a", "b", "c"], None)


def test_a_broker_that_does_not_answer_is_asked_again_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = Pages(page("a", "1"), RequestTimeout("x", 1), RequestTimeout("x", 1), page("b", None))
    assert pages.all(9) == (["a", "b"], None)
    assert [cursor for _, cursor in pages.asked] == [None, "1", "1", "1"]
    with pytest.raises(TopicNotFound):
        Pages(TopicNotFound("t")).all(9)
    monkeypatch.setattr(message, "PATIENCE_MS", 0)
    with pytest.raises(RequestTimeout):
        Pages(RequestTimeout("x", 1)).all(9)


def test_an_interrupted_search_says_how_to_continue(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        Pages(page("a", "the-place"), KeyboardInterrupt()).all(9)
    assert "--cursor the-place" in capsys.readouterr().err
