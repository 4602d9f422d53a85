"""How the rows of `zenit sql` are printed."""

from __future__ import annotations

import json

import pytest

from zenitmq.cli.commands.sql import print_result
from zenitmq.pipeline.sql import SqlResult

RESULT = SqlResult(
    ("name", "count", "properties"), (("a,\nb", 1, {"x": "ä"}), (None, 20, ["long " * 30])), is_cut=False
)


def test_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(RESULT, as_csv=False, as_json=False)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "count", "properties"]
    assert first.split() == ["a,", "b", "1", '{"x":', '"ä"}']
    assert second.split()[:2] == ["-", "20"]
    assert len(second) < 100


def test_json_is_a_list_of_objects(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(RESULT, as_csv=False, as_json=True)
    assert json.loads(capsys.readouterr().out) == [
        {"name": "a,\nb", "count": 1, "properties": {"x": "ä"}},
        {"name": None, "count": 20, "properties": ["long " * 30]},
    ]


def test_csv_has_a_header_and_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(SqlResult(("a", "b"), (('x,"y', {"k": 1}), (None, 2)), is_cut=True), as_csv=True, as_json=False)
    assert capsys.readouterr().out == 'a,b\n"x,""y","{""k"": 1}"\n,2\n'
