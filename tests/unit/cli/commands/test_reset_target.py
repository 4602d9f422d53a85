"""What `group reset-offset --to` and `--queue` mean."""

from __future__ import annotations

import pytest
import typer

from zenitmq.cli.commands.group import queue_of, reset_target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", ("earliest", 0)),
        ("latest", ("latest", 0)),
        ("0", ("offset", 0)),
        ("99999999999", ("offset", 99_999_999_999)),
        ("1700000000123", ("time", 1_700_000_000_123)),
        ("2023-11-14T22:13:20.123+00:00", ("time", 1_700_000_000_123)),
    ],
)
def test_a_place_an_offset_or_a_time(text: str, target: tuple[str, int]) -> None:
    assert reset_target(text) == target


@pytest.mark.parametrize("text", ["", "-1", "soon", "1.5"])
def test_anything_else_is_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        reset_target(text)


@pytest.mark.parametrize(("text", "expected"), [("broker-a:3", ("broker-a", 3)), ("a:b:0", ("a:b", 0))])
def test_a_queue_is_a_broker_and_a_number(text: str, expected: tuple[str, int]) -> None:
    queue = queue_of("t", text)
    assert (queue.topic, queue.broker_name, queue.queue_id) == ("t", *expected)


@pytest.mark.parametrize("text", ["", "3", ":3", "broker-a", "broker-a:", "broker-a:-1", "broker-a:²"])
def test_anything_else_is_no_queue(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        queue_of("t", text)
