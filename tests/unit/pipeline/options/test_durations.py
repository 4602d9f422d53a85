"""Spans of time as text."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import ConfigError
from zenitmq.pipeline.options.durations import DURATION_MS_MAX, duration_ms, spark_interval


@pytest.mark.parametrize(
    ("text", "length_ms"),
    [("1ms", 1), ("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("2h", 7_200_000), ("365d", DURATION_MS_MAX)],
)
def test_what_a_text_means(text: str, length_ms: int) -> None:
    assert duration_ms("every", text) == length_ms
    assert spark_interval(length_ms) == f"{length_ms} milliseconds"


@pytest.mark.parametrize("text", ["", "0s", "5", "-5s", "1.5s", "5 s", "366d", "99999999999d", "٣s", None, 5])
def test_what_is_none_is_refused_by_its_key(text: object) -> None:
    with pytest.raises(ConfigError) as refused:
        duration_ms("every", text)
    assert refused.value.key == "every"
