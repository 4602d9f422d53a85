"""What a reader's request ends with, once the time for all its tries is over."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import NoRoute, RequestTimeout, ZenitError
from zenitmq.pipeline.options.options import ReadOptions
from zenitmq.pipeline.reading import topic_positions
from zenitmq.pipeline.reading.topic_positions import TopicPositions


class Clock:
    """Time passes by pauses, and by requests that nobody answers."""

    def __init__(self) -> None:
        self.now_ms = 0

    def pass_ms(self, ms: int) -> None:
        self.now_ms += ms


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        ((NoRoute("t", "no broker serves it"), RequestTimeout("GetRoute", 45)), NoRoute),
        ((RequestTimeout("GetRoute", 45), NoRoute("t", "no broker serves it")), NoRoute),
        ((RequestTimeout("GetRoute", 45), RequestTimeout("GetRoute", 45)), RequestTimeout),
        ((RequestTimeout("GetRoute", 400),), RequestTimeout),
    ],
    ids=["the rest of the time is too short", "found at last", "never an answer", "one try"],
)
def test_a_last_try_cut_short_does_not_hide_what_an_earlier_one_found(
    monkeypatch: pytest.MonkeyPatch, errors: tuple[ZenitError, ...], told: type[ZenitError]
) -> None:
    clock = Clock()
    monkeypatch.setattr(topic_positions, "monotonic_ms", lambda: clock.now_ms)
    monkeypatch.setattr(topic_positions, "sleep_ms", clock.pass_ms)
    positions = TopicPositions(
        ReadOptions.parse({"namesrv": "127.0.0.1:1", "subscribe": "t", "requestTimeoutMs": "400"})
    )
    left = list(errors)

    def refreshed(_topic: str, _timeout_ms: int) -> object:
        clock.pass_ms(390 if len(left) == 1 else 1)
        raise left.pop(0)

    monkeypatch.setattr(positions, "_refreshed", refreshed)
    with pytest.raises(told):
        positions._route("t")
    assert not left
