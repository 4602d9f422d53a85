"""What `group reset-offset --to` means."""

from __future__ import annotations

import pytest
import typer

from zenitmq.cli.group import reset_target


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
