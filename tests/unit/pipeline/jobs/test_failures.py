"""What a user is told of Spark's long errors."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import JobFailed, TopicNotFound
from zenitmq.pipeline.jobs.failures import REASON_CHARACTERS_MAX, failure, reason_of

WORKER = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted.
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
zenitmq.model.errors.settings.TopicNotFound: topic 'x' does not exist; create it
"""


def test_an_error_of_ours_is_told_as_it_is() -> None:
    error = TopicNotFound("x")
    assert failure("archive", error, "/log") is error


def test_ours_is_found_in_the_traceback_of_a_worker() -> None:
    told = failure("archive", RuntimeError(WORKER), "/log")
    assert isinstance(told, JobFailed)
    assert str(told) == "job archive: topic 'x' does not exist; create it (log: /log)"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", ""),
        ("\n  first line \nsecond", "first line"),
        ("PythonException: wrapped\nValueError: three of them\nmore", "ValueError: three of them"),
        ("java.lang.OutOfMemoryError: Java heap space\n\tat org.x", "OutOfMemoryError: Java heap space"),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: It broke. SQLSTATE: XXKST\n=",
            "It broke.",
        ),
        ("[TABLE_NOT_FOUND] No such table.", "No such table."),
        ("x" * 1000, "x" * (REASON_CHARACTERS_MAX - 1) + "…"),
    ],
)
def test_the_line_that_tells_most(text: str, reason: str) -> None:
    assert reason_of(text) == reason


def test_an_error_without_a_word_is_told_by_its_kind() -> None:
    assert str(failure("replay", KeyError(), "")) == "job replay: KeyError"
