"""`zenit events`: each event once, as a line or as JSON; who does not answer is named once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zenitmq.cli.commands import events
from zenitmq.cli.commands.events import _Lines, event_text
from zenitmq.model.errors import AccessDenied, ConnectionLost


def event(epoch: int) -> dict[str, Any]:
    head = {"ts": "2026-11-26T20:00:39.123Z", "level": "info", "role": "controller", "node": "c:1", "event": "elected"}
    return {**head, "group": "g", "epoch": epoch}


def test_a_line_says_when_who_and_what() -> None:
    expected = "2026-11-26T20:00:39.123Z info     controller c:1               elected group=g epoch=7"
    assert event_text(event(7)) == expected


@pytest.mark.parametrize("as_json", [True, False])
def test_each_event_is_shown_once(
    as_json: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "SHOWN_MAX", 3)
    lines = _Lines(as_json)
    lines.show({"events": [event(1), event(2)], "silent": ["h:1"], "refused": {}})
    lines.show({"events": [event(2), event(3)], "silent": ["h:1"], "refused": {}})
    lines.show({"events": [event(4)], "silent": [], "refused": {}})
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 4
    assert printed.err.count("no answer from h:1") == 1
    assert len(lines._shown) == 3
    if as_json:
        assert [json.loads(line)["epoch"] for line in printed.out.splitlines()] == [1, 2, 3, 4]


def test_who_refuses_is_told_with_the_right_that_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _Lines(as_json=True)
    why = str(AccessDenied("viewer", "get", "cluster"))
    for _ in range(2):
        lines.show({"events": [event(1)], "silent": [], "refused": {"h:1": why, "h:2": why}})
    assert lines.has_refusals
    (told,) = capsys.readouterr().err.splitlines()
    assert "no answer" not in told
    assert "the events of h:1, h:2 are missing: user 'viewer' may not get on cluster" in told
    lines.show({"events": [], "silent": [], "refused": {}})
    assert not lines.has_refusals


class Following:
    """An administrator whose cluster is away twice, and a reader who leaves then."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def events(self, *, group: str | None, since: Any) -> dict[str, Any]:
        self.asked.append((group, since))
        if len(self.asked) < 3:
            raise ConnectionLost("h:1")
        return {"events": [event(len(self.asked))], "silent": [], "refused": {}}


def test_following_goes_on_while_nobody_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = Following()
    monkeypatch.setattr(events, "sleep_ms", lambda _: None)
    monkeypatch.setattr(events, "reader_is_gone", lambda: len(admin.asked) == 4)
    events._follow(admin, _Lines(True), "g", None)  # type: ignore[arg-type]
    printed = capsys.readouterr()
    assert [json.loads(line)["epoch"] for line in printed.out.splitlines()] == [3, 4]
    assert printed.err.count("h:1") == 1
    assert {group for group, _ in admin.asked} == {"g"}
