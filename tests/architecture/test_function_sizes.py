"""A function fits on a screen or two."""

from __future__ import annotations

import ast
from typing import Final

from measured_files import ROOT, package_files

LINES_MAX: Final = 80
KERNEL_LOOPS: Final = frozenset(  # one loop each, whose parts would cost a call a record
    {
        "record/runs.py _scan",
        "record/runs.py stamp",
        "record/encoding.py _append",
        "record/units.py select_where",
    }
)
LISTED: Final = frozenset(  # to be cut; who cuts one takes it off
    {}
)


def test_no_function_is_longer_than_two_screens() -> None:
    long = {
        f"{file.relative_to(ROOT).as_posix()} {node.name}"
        for file in package_files()
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (node.end_lineno or node.lineno) - node.lineno >= LINES_MAX
    }
    assert long <= KERNEL_LOOPS | LISTED
