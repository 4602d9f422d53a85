"""Imports point down the floors, and one file stands before each outside thing (docs: the picture in README.md)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]

# What each folder may import of ours. Lowest first; a folder that is not named here has no place in the house.
BELOW: dict[str, frozenset[str]] = {
    "model": frozenset(),
    "record": frozenset({"model"}),
    "metrics": frozenset({"model"}),
    "remoting": frozenset({"model", "metrics"}),
    "store": frozenset({"model", "record", "metrics"}),
    "namesrv": frozenset({"model", "metrics", "remoting", "store"}),
    "controller": frozenset({"model", "metrics", "remoting"}),
    "client": frozenset({"model", "metrics", "record", "remoting"}),
    "broker": frozenset({"model", "metrics", "record", "remoting", "store", "client"}),
    "local": frozenset({"model", "record", "remoting", "store", "client", "broker", "namesrv"}),
    "pipeline": frozenset({"model", "record", "remoting", "client"}),
    "bench": frozenset({"model", "metrics", "record", "remoting", "store", "client", "broker", "namesrv", "proxy"}),
    "proxy": frozenset({"model", "metrics", "record", "remoting", "client"}),
    "deploy": frozenset(
        {"model", "metrics", "record", "remoting", "store", "client", "broker", "namesrv", "controller", "proxy"}
    ),
    "testing": frozenset({"model", "remoting", "client", "deploy"}),
    "cli": frozenset(
        {
            "model",
            "metrics",
            "record",
            "remoting",
            "store",
            "client",
            "broker",
            "namesrv",
            "controller",
            "proxy",
            "pipeline",
            "bench",
            "deploy",
        }
    ),
}

# Which files may import an outside thing; a pattern as fnmatch takes it: `*` goes on over folders.
VENDORS: dict[str, tuple[str, ...]] = {
    "zmq": ("remoting/*_socket.py",),
    "mmap": ("store/log/segment.py",),
    "time": ("model/clock.py",),
    "kazoo": ("controller/zookeeper.py",),
    "rocksdict": ("store/rocksdb_*.py", "store/queues/rows/rocksdb_*.py"),
    "pyspark": ("pipeline/*.py",),
    "pyarrow": ("pipeline/*.py",),
    "typer": ("cli/*.py",),
    "obstore": ("deploy/backup/bucket_target.py",),
    "opentelemetry": ("client/tracing/otel/*.py",),
    "rich": ("cli/*.py",),
    "grpc": (),
    "hpack": ("proxy/http2/headers.py",),
    "google": ("proxy/schema.py",),
    "uvloop": ("proxy/event_loop.py",),
}

# A role's pure middle: no sockets, threads, files or clock of its own.
PURE_MODEL_FORBIDS = frozenset({"zmq", "socket", "threading", "subprocess", "asyncio", "mmap"})


@dataclass(frozen=True)
class Import:
    """One import: of `target` (a folder of ours, or the first name of an outside module), at `place`."""

    place: str
    target: str
    ours: bool


def source_files() -> list[Path]:
    return sorted(path for folder in BELOW for path in (ROOT / folder).rglob("*.py"))


def imports_of(source: str, path: PurePosixPath) -> Iterator[Import]:
    """Every import in a file, inside functions too. `path` is relative to the package's root."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first, _, rest = alias.name.partition(".")
                ours = first == "zenitmq"
                yield Import(f"{path}:{node.lineno}", rest.split(".")[0] if ours else first, ours)
        elif isinstance(node, ast.ImportFrom):
            place = f"{path}:{node.lineno}"
            if node.level == 0:
                first, _, rest = (node.module or "").partition(".")
                ours = first == "zenitmq"
                yield Import(place, rest.split(".")[0] if ours else first, ours)
                continue
            parents = path.parent.parts
            base = parents[: len(parents) - (node.level - 1)]
            parts = (*base, *((node.module or "").split(".") if node.module else ()))
            if parts:
                yield Import(place, parts[0], ours=True)
            else:  # from .. import name: the root itself, or a folder of it
                for alias in node.names:
                    yield Import(place, alias.name if alias.name in BELOW else "", ours=True)


def breaches(source: str, path: PurePosixPath) -> list[str]:
    """What a file imports and may not, one text each."""
    folder = path.parts[0]
    found = []
    for item in imports_of(source, path):
        if item.ours:
            if item.target != folder and item.target not in BELOW[folder]:
                found.append(f"{item.place}: {folder} may not import {item.target or 'the package root'}")
        elif (allowed := VENDORS.get(item.target)) and not any(fnmatch(str(path), pattern) for pattern in allowed):
            found.append(f"{item.place}: {item.target} is imported by {', '.join(allowed)} only")
    return found


def test_imports_point_down_and_vendors_have_one_door() -> None:
    found = []
    for file in source_files():
        path = PurePosixPath(file.relative_to(ROOT).as_posix())
        found += breaches(file.read_text(encoding="utf-8"), path)
    assert not found, "\n".join(found)


def test_every_folder_with_code_has_a_floor() -> None:
    packages = {init.parent.name for init in ROOT.glob("*/__init__.py")}
    assert packages == set(BELOW)


def test_imports_inside_the_package_are_relative() -> None:
    absolute = []
    for file in source_files():
        path = PurePosixPath(file.relative_to(ROOT).as_posix())
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            absolute += [f"{path}:{node.lineno}" for name in names if name.split(".")[0] == "zenitmq"]
    assert not absolute


def test_the_model_is_pure() -> None:
    found = []
    for file in sorted((ROOT / "model").rglob("*.py")):
        path = PurePosixPath(file.relative_to(ROOT).as_posix())
        found += [i.place for i in imports_of(file.read_text(encoding="utf-8"), path) if i.target in PURE_MODEL_FORBIDS]
    assert not found


@pytest.mark.parametrize(
    ("path", "source", "breach"),
    [
        ("model/x.py", "from ..store import dispatch", "model may not import store"),
        ("model/x.py", "from .. import store", "model may not import store"),
        ("store/x.py", "from ..remoting.commands import Request", "store may not import remoting"),
        ("namesrv/x.py", "def f():\n    from ..client.admin import Admin", "namesrv may not import client"),
        ("broker/x.py", "import zenitmq.cli.main", "broker may not import cli"),
        ("remoting/server.py", "import zmq.asyncio", "zmq is imported by remoting/*_socket.py only"),
        ("store/queue.py", "from mmap import mmap", "mmap is imported by store/log/segment.py only"),
        ("broker/service.py", "import time", "time is imported by model/clock.py only"),
        ("pipeline/lag.py", "from ..cli.main import run", "pipeline may not import cli"),
        ("cli/commands/sql.py", "import pyarrow", "pyarrow is imported by pipeline/*.py only"),
    ],
)
def test_a_breach_is_seen(path: str, source: str, breach: str) -> None:
    """The checks above can fail."""
    assert [text.partition(": ")[2] for text in breaches(source, PurePosixPath(path))] == [breach]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("remoting/server_socket.py", "import zmq"),
        ("store/deep/segment.py", "from ...model.queue import PhysicalOffset"),
        ("broker/service.py", "from ..client.cluster import resolve\nfrom .topics import Topics\nimport threading"),
    ],
)
def test_what_is_allowed_passes(path: str, source: str) -> None:
    assert breaches(source, PurePosixPath(path)) == []
