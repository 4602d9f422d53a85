"""A PostgreSQL server in a temporary directory, reached by a socket file, as a user without rights."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

_ROOTS: Final = (Path("/usr/lib/postgresql"), Path("/usr/local/lib/postgresql"))
SUPERUSER: Final = "shop"
START_S: Final = 60


def _binaries() -> Path | None:
    found = sorted(path.parent for root in _ROOTS for path in root.glob("*/bin/postgres"))
    return found[-1] if found else None


def _unprivileged() -> dict[str, Any]:
    """Arguments of subprocess: the server refuses to run as root."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


@contextmanager
def postgresql() -> Iterator[dict[str, str]]:
    """The environment by which clients reach it. Skips where there is no server, or no driver."""
    binaries = _binaries()
    if binaries is None or find_spec("psycopg") is None:
        pytest.skip("PostgreSQL or psycopg is missing: ./test.sh installs both where it may")
    who = _unprivileged()
    directory = tempfile.mkdtemp(prefix="zenit-pg-", dir="/tmp")  # the path of a socket is short
    try:
        if who:
            os.chown(directory, who["user"], who["group"])
        data = f"{directory}/data"
        make = [binaries / "initdb", "-D", data, "-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(make, check=True, capture_output=True, cwd=directory, timeout=START_S, **who)
        start = [binaries / "pg_ctl", "-D", data, "-w", "-l", f"{directory}/log", "-o", _options(directory)]
        subprocess.run([*start, "start"], check=True, capture_output=True, cwd=directory, timeout=START_S, **who)
        try:
            yield {"PGHOST": directory, "PGUSER": SUPERUSER, "PGDATABASE": "postgres"}
        finally:
            stop = [binaries / "pg_ctl", "-D", data, "-m", "immediate", "stop"]
            subprocess.run(stop, check=True, capture_output=True, cwd=directory, timeout=START_S, **who)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _options(directory: str) -> str:
    return f"-k {directory} -c listen_addresses= -c fsync=off -c max_connections=20 -c shared_buffers=16MB"
