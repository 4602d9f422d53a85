"""What coverage traces of a run: the code of tests and fixtures, but for tests whose lines and branches others reach.

To trace doubles what a unit test takes, and all that pytest does around it. So the tracer rests between tests and, if
`--spare-traces` is given, in those that untraced.txt lists: a line each, without parameters. To write the list anew:

    python -m pytest tests/unit --cov --cov-context=test --test-times-to times.json \\
        --ignore tests/unit/store/offline/test_closed_directory.py      # it may not write what coverage keeps
    python -m tests.tracing .coverage times.json
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

LIST = Path(__file__).with_name("untraced.txt")
SHORTEST_S = 0.05


def name_of(node_id: str) -> str:
    """A test without its parameters."""
    return node_id.partition("[")[0]


class Tracing:
    """A plugin of pytest. `spares`: whether listed tests are not traced. `times`: a file for what each took of a processor."""

    def __init__(self, *, spares: bool, times: Path | None) -> None:
        self._times = times
        self._untraced = frozenset(LIST.read_text(encoding="utf-8").split() if spares else ())
        self._seconds: Counter[str] = Counter()
        self._tracer: Any = None  # of the test that runs

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        name, tracer, began = name_of(item.nodeid), sys.gettrace(), time.thread_time()
        self._tracer = None if name in self._untraced else tracer
        sys.settrace(None)
        try:
            return (yield)
        finally:
            self._tracer = None
            sys.settrace(tracer)
            self._seconds[name] += time.thread_time() - began

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self) -> Generator[None, object, object]:
        return (yield from self._traced())

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self) -> Generator[None, object, object]:
        return (yield from self._traced())

    def _traced(self) -> Generator[None, object, object]:
        before = sys.gettrace()  # a test may ask for a fixture
        sys.settrace(self._tracer)
        try:
            return (yield)
        finally:
            sys.settrace(before)

    def pytest_sessionfinish(self) -> None:
        if self._times:
            self._times.write_text(json.dumps(self._seconds), encoding="utf-8")


def reached(coverage: Path) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """(test, branch) of each branch that a test took; the test is empty for what imports took."""
    with closing(sqlite3.connect(coverage)) as rows:
        query = "SELECT context, file_id, fromno, tono FROM arc JOIN context ON context.id = context_id"
        for context, *branch in rows.execute(query):
            yield name_of(context.partition("|")[0]), (branch[0], branch[1], branch[2])


def spared(coverage: Path, seconds: dict[str, float]) -> list[str]:
    """Tests that need no trace, the longest looked at first: each of their branches is taken by another that is traced."""
    taken: defaultdict[str, set[tuple[int, int, int]]] = defaultdict(set)
    for name, branch in reached(coverage):
        taken[name].add(branch)
    tests = Counter(branch for branches in taken.values() for branch in branches)
    found = []
    for name in sorted(seconds, key=lambda name: -seconds[name]):
        if seconds[name] >= SHORTEST_S and all(tests[branch] > 1 for branch in taken[name]):
            tests.subtract(taken[name])
            found.append(name)
    return sorted(found)


def main(coverage: str, times: str) -> None:
    found = spared(Path(coverage), json.loads(Path(times).read_text(encoding="utf-8")))
    LIST.write_text("".join(f"{name}\n" for name in found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
