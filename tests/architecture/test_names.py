"""One class name means one thing, wherever in the package it is read."""

from __future__ import annotations

import ast
from collections import defaultdict

from measured_files import ROOT, package_files


def classes() -> dict[str, set[str]]:
    """The files that define each class name; a class of client/aio and its synchronous twin count as one file."""
    defined: dict[str, set[str]] = defaultdict(set)
    for file in package_files():
        path = file.relative_to(ROOT).as_posix().replace("client/aio/", "client/")
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                defined[node.name].add(path)
    return defined


def test_no_class_name_is_defined_twice() -> None:
    twice = {name: sorted(files) for name, files in classes().items() if len(files) > 1}
    assert not twice
