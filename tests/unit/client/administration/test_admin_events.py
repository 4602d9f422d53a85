"""What servers answer about events, put together: in order, of one group, and nothing that is no event."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.client.administration.admin_events import _Found
from zenitmq.model.errors import AccessDenied, ConnectionLost, HandshakeFailed, RequestTimeout


def event(ts: str, **facts: Any) -> dict[str, Any]:
    return {"ts": ts, "level": "info", "role": "broker", "node": "a", "event": "elected", **facts}


EARLY, LATE = event("2026-11-26T20:00:00.001Z", group="g"), event("2026-11-26T20:00:00.002Z", group="h")


def test_answers_are_in_the_order_of_time() -> None:
    found = _Found(0, None)
    found.add([LATE])
    found.add([EARLY])
    found.silent.add("h:2")
    found.silent.add("h:1")
    assert found.document() == {"events": [EARLY, LATE], "silent": ["h:1", "h:2"], "refused": {}}


def test_who_refuses_is_not_silent() -> None:
    found = _Found(0, None)
    denied = AccessDenied("viewer", "get", "cluster")
    found.missed({"h:1": denied, "h:2": HandshakeFailed("h:2", "ended"), "h:3": RequestTimeout("x", 1)})
    found.missed({"h:4": ConnectionLost("h:4")})
    assert found.document()["silent"] == ["h:3", "h:4"]
    assert found.document()["refused"] == {"h:1": str(denied), "h:2": "h:2 ended"}
    assert (found.refusal, found.answers) == (denied, 0)


def test_one_groups_are_those_that_name_it() -> None:
    found = _Found(0, "h")
    found.add([EARLY, LATE, event("2026-11-26T20:00:00.003Z")])
    assert found.document()["events"] == [LATE]


@pytest.mark.parametrize(
    "answer", [None, 7, "text", {}, [1, None, [], {}], [{"ts": 1}], [event("x") | {"level": None}]]
)
def test_what_is_no_event_is_passed_over(answer: object) -> None:
    found = _Found(0, None)
    found.add(answer)
    assert not found.document()["events"]


@pytest.mark.parametrize("ts", ["yesterday", "9" * 30, "0000-00-00T00:00:00.000Z"])
def test_a_time_that_is_none_comes_first(ts: str) -> None:
    found = _Found(0, None)
    found.add([EARLY, event(ts)])
    assert [one["ts"] for one in found.document()["events"]] == [ts, EARLY["ts"]]
