"""The check that a file went through whole finds what is lost, added, changed or out of order."""

from __future__ import annotations

from pathlib import Path

import pytest

from zenitmq.deploy.line_check import compare, main, split_lines

LINES = [b"a", b"b", b"", b"a", b"c"]


def test_interleaved_queues_are_whole() -> None:
    found = compare(LINES, [(1, b"b"), (0, b"a"), (1, b"a"), (0, b""), (1, b"c")])
    assert (found.problem, found.lines, found.queues) == ("", 5, 2)


@pytest.mark.parametrize(
    ("consumed", "problem"),
    [
        ([(0, line) for line in LINES[:-1]], "1 lines missing, 0 too many"),
        ([(0, line) for line in (*LINES, b"c")], "0 lines missing, 1 too many"),
        ([(0, line) for line in (*LINES[:-1], b"C")], "1 lines missing, 1 too many"),
        ([(0, b"a"), (0, b"c"), (1, b"b"), (1, b"a"), (1, b"")], "queue 1 is out of order"),
    ],
)
def test_damage_is_found(consumed: list[tuple[int, bytes]], problem: str) -> None:
    assert compare(LINES, consumed).problem.startswith(problem)


@pytest.mark.parametrize(
    ("data", "lines"),
    [(b"", []), (b"a\n", [b"a"]), (b"a", [b"a"]), (b"a\n\nb\r\n", [b"a", b"", b"b\r"]), (b"\n", [b""])],
)
def test_lines_are_split_as_they_are_sent(data: bytes, lines: list[bytes]) -> None:
    assert split_lines(data) == lines


def test_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent, good, bad = tmp_path / "sent", tmp_path / "good", tmp_path / "bad"
    sent.write_bytes(b"x y\nz\n")
    good.write_bytes(b"0 x y\n1 z\n")
    bad.write_bytes(b"0 x y\n")
    assert main([str(sent), str(good)]) == 0
    assert main([str(sent), str(bad)]) == 1
    assert "1 lines missing" in capsys.readouterr().out
