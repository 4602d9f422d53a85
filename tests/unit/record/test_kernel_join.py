"""The parts of the kernel become one module that says the same."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import zenitmq.record
from zenitmq.record.kernel_join import PARTS, joined, named_numbers

FOLDER = Path(zenitmq.record.__path__[0])
SOURCES = {part: (FOLDER / f"{part}.py").read_text("utf-8") for part in PARTS}

PIECES = dict.fromkeys(PARTS, '"""Nothing."""\n') | {
    "codes": (
        '"""Numbers."""\n\nfrom typing import Final\n\n'
        'PLACE: Final = 36\nBAD: Final = -2\nLARGE: Final = 0xDAA320A7\nTEXT: Final = "PLACE"\n'
    ),
    "index": (
        '# cython: boundscheck=False\n"""A part."""\n\nfrom __future__ import annotations\n\nimport cython\n\n'
        "from ..model.errors import MessageIllegal\nfrom .codes import BAD, LARGE, PLACE\nfrom .primitives import get32\n\n\n"
        'def f(at):\n    """From PLACE on."""\n    return get32(at + PLACE) if at else BAD + LARGE\n'
    ),
}


def test_names_of_numbers_become_numbers_and_imports_of_parts_go() -> None:
    text = joined(PIECES)
    assert "get32(at + 36) if at else -2 + LARGE" in text
    assert '"""From PLACE on."""' in text
    assert "from ..model.errors import MessageIllegal" in text
    assert "from .codes" not in text
    assert "from .primitives" not in text
    assert text.count("from __future__") == 1
    assert text.count("# cython:") == 2  # its own


def test_numbers_too_large_for_c_stay_names() -> None:
    assert named_numbers(PIECES["codes"]) == {"PLACE": 36, "BAD": -2}


def test_a_part_that_is_missing_is_an_error() -> None:
    with pytest.raises(KeyError):
        joined({part: source for part, source in SOURCES.items() if part != "runs"})


def test_each_part_imports_only_parts_before_it() -> None:
    for number, part in enumerate(PARTS):
        named = {
            node.module
            for node in ast.parse(SOURCES[part]).body
            if isinstance(node, ast.ImportFrom) and node.level == 1
        }
        assert named & set(PARTS[number:]) == set(), part


def test_the_joined_kernel_defines_what_the_parts_define_once() -> None:
    tree = ast.parse(joined(SOURCES))
    names = [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    parts = [node for source in SOURCES.values() for node in ast.parse(source).body]
    assert sorted(names) == sorted(node.name for node in parts if isinstance(node, (ast.FunctionDef, ast.ClassDef)))
    assert len(names) == len(set(names))
