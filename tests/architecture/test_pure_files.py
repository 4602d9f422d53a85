"""A module whose docstring says "Pure." is pure, and each that is pure says so. Coverage is measured of exactly those.

A pure file reads no clock, opens nothing, starts no thread, does not log, and imports only pure files. All that it does
follows from its arguments, so unit and property tests can reach each of its branches; `test.sh` asks them to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType

import pytest
from measured_files import package_files, says_pure

ROOT = Path(__file__).parents[2]

# Outside modules by which a file reads, waits, runs something beside itself, or tells somebody.
IMPURE = frozenset(
    """asyncio concurrent ctypes fcntl gc importlib kazoo logging mmap multiprocessing obstore opentelemetry os pathlib platform
    pyspark queue rich rocksdict secrets select selectors shutil signal socket subprocess sys tempfile threading time typer
    weakref zmq""".split()
)

# A name that a pure file may import of a file that is not pure: it is so itself.
PURE_NAMES = frozenset(
    {
        ("model/clock.py", "datetime_of_ms"),
        ("model/clock.py", "ms_of_datetime"),
        ("record/crc32.py", "crc32"),
        ("record/crc32.py", "crc32_address"),
    }
)

# Pure but for one thing: the loader reads the file it is told to, once, at start; the schema has descriptors in its own file.
MAY_OPEN = frozenset({"model/config.py", "proxy/schema.py"})


def package_sources() -> Mapping[str, str]:
    """Path below the root -> text, of each file of the package."""
    return MappingProxyType(
        {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in package_files()}
    )


def run_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those that only a type checker sees."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from run_nodes(node)


def imported(node: ast.ImportFrom, path: str, sources: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(file, name) of each name that a relative import brings in."""
    parents = PurePosixPath(path).parent.parts
    base = (*parents[: len(parents) - (node.level - 1)], *(node.module.split(".") if node.module else ()))
    for alias in node.names:
        inside = "/".join((*base, alias.name))  # a module or package of that name, else a name of the module itself
        for candidate in (
            f"{inside}.py",
            f"{inside}/__init__.py",
            "/".join(base) + ".py",
            "/".join((*base, "__init__.py")),
        ):
            if candidate in sources:
                yield candidate, alias.name
                break


@dataclass(frozen=True)
class Uses:
    """What a file reaches for: impure things of its own, and (file, name) of what it imports of ours."""

    itself: tuple[str, ...]
    ours: tuple[tuple[str, str], ...]

    def impurities(self, pure: frozenset[str]) -> list[str]:
        """What keeps the file from being pure, if `pure` are the files that are."""
        others = [f"imports {file}" for file, name in self.ours if file not in pure and (file, name) not in PURE_NAMES]
        return [*self.itself, *others]


def uses_of(path: str, sources: Mapping[str, str]) -> Uses:
    itself: list[str] = []
    ours: list[tuple[str, str]] = []
    for node in run_nodes(ast.parse(sources[path])):
        if isinstance(node, ast.Import):
            itself += [f"imports {alias.name}" for alias in node.names if alias.name.partition(".")[0] in IMPURE]
        elif isinstance(node, ast.ImportFrom) and node.level:
            ours += imported(node, path, sources)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in IMPURE:
            itself.append(f"imports {node.module}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            itself += [] if path in MAY_OPEN else ["opens a file"]
    return Uses(tuple(itself), tuple(ours))


def impurities(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Each file with what keeps it from being pure: all are taken to be so, until no more prove not to be."""
    uses = {path: uses_of(path, sources) for path in sources}
    pure = frozenset(sources)
    while True:
        found = {path: each.impurities(pure) for path, each in uses.items()}
        left = frozenset(path for path, reasons in found.items() if not reasons)
        if left == pure:
            return found
        pure = left


@pytest.fixture(scope="module")
def sources() -> Mapping[str, str]:
    return package_sources()


@pytest.fixture(scope="module")
def found(sources: Mapping[str, str]) -> dict[str, list[str]]:
    return impurities(sources)


def test_what_says_that_it_is_pure_is_pure(sources: Mapping[str, str], found: dict[str, list[str]]) -> None:
    assert not {path: found[path] for path, source in sources.items() if says_pure(source) and found[path]}


def test_what_is_pure_says_so(sources: Mapping[str, str], found: dict[str, list[str]]) -> None:
    pure = {path for path, reasons in found.items() if not reasons and not path.endswith("__init__.py")}
    silent = sorted(path for path in pure if not says_pure(sources[path]))
    assert not silent, f'pure, so their docstrings say "Pure.": {", ".join(silent)}'


STORY = {
    "model/__init__.py": "",
    "model/clock.py": "import time",
    "model/values.py": "",
    "store/__init__.py": "import logging",
    "store/shell.py": "import zmq",
    "store/indirect.py": "from .shell import g",
}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import threading", "imports threading"),
        ("def f():\n    from os.path import join", "imports os.path"),
        ("from ..model.clock import now_ms", "imports model/clock.py"),
        ("from ..model import clock", "imports model/clock.py"),
        ("from . import shell", "imports store/shell.py"),
        ("from .. import store", "imports store/__init__.py"),
        ("from .indirect import f", "imports store/indirect.py"),
        ("def f(path):\n    return open(path)", "opens a file"),
    ],
)
def test_an_impurity_is_seen(source: str, reason: str) -> None:
    """The checks above can fail."""
    assert impurities({**STORY, "store/x.py": source})["store/x.py"] == [reason]


@pytest.mark.parametrize(
    "source",
    [
        "from ..model.clock import datetime_of_ms",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .shell import Shell",
        "import zlib\nfrom ..model.values import V\nfrom .. import model",
    ],
)
def test_what_is_pure_passes(source: str) -> None:
    assert impurities({**STORY, "store/x.py": source})["store/x.py"] == []
