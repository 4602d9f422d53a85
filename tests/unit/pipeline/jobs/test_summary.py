"""How a job says how it goes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zenitmq.pipeline.jobs.summary import JobProgress, rate, rows_behind


def test_the_line_for_a_person() -> None:
    assert JobProgress(1234567, 2.0, 89000).line() == "1,234,567 rows, 617,284 rows/s, 89,000 rows behind"
    assert JobProgress(0, 0.0).line() == "0 rows, 0 rows/s"


def test_a_rate_needs_time() -> None:
    assert rate(10, 4) == 2.5
    assert rate(10, 0) == 0


OFFSETS = {"orders": {"broker-a": {"0": 7, "1": 3}}}


@pytest.mark.parametrize(
    ("sources", "behind"),
    [
        ([], None),
        (None, None),
        ([{"endOffset": OFFSETS, "latestOffset": None}], None),
        ([{"endOffset": "no JSON", "latestOffset": OFFSETS}], None),
        ([{"endOffset": "[1]", "latestOffset": OFFSETS}], None),
        ([{"endOffset": OFFSETS, "latestOffset": OFFSETS}], 0),
        (
            [
                {
                    "endOffset": json.dumps(OFFSETS),
                    "latestOffset": json.dumps({"orders": {"broker-a": {"0": 9, "2": 5}}}),
                }
            ],
            7,
        ),
        ([{"endOffset": OFFSETS, "latestOffset": {"orders": {"broker-a": {"0": 5, "1": "x"}}}}], 0),
        (
            [
                {"endOffset": {}, "latestOffset": {"a": {"b": {"0": 1}}}},
                {"endOffset": {}, "latestOffset": {"c": {"d": {"0": 2}}}},
            ],
            3,
        ),
    ],
)
def test_rows_behind_as_spark_reports_them(sources: Any, behind: int | None) -> None:
    assert rows_behind({"sources": sources}) == behind
