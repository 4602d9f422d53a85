"""Processes of ours are forks of one that has imported everything, in tests that start many.

To import what `zenit` or a broker needs is a fifth to a third of a second of a core, and the tests start thousands. So
`sys.executable` becomes a stand-in (command.c), beside one of `zenit`: whoever starts it gets a fork of the server (server.py),
or, for programs and settings that the server does not take, what it stands in for. Servers of clusters are forks with a pid of
their own, since tests kill and stop them by it.

The real ones stay where they are, in `REAL`: tests of how the command itself starts and ends use those.
"""

from __future__ import annotations

import array
import atexit
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from zenitmq.deploy import processes

SOCKET: Final = "TEST_FORKS"  # command.c names it too
REAL: Final = Path(sys.prefix, "bin")
REAL_PYTHON: Final = str(REAL / Path(sys.executable).name)
STAND_INS: Final = Path(sys.prefix, "forks")
STAND_IN: Final = str(STAND_INS / Path(sys.executable).name)
SOURCE: Final = Path(__file__).with_name("command.c")
REFUSED: Final = -1
LISTEN: Final = """
import sys
sys.path.insert(0, sys.argv[1])
from forks.server import main
del sys.path[0]
main(int(sys.argv[2]))
"""

_spawn: Final = processes.spawn


def use_forks() -> None:
    """From now on, until this process ends. Nothing changes where there is no C compiler."""
    if SOCKET in os.environ or not _build():
        return
    place = tempfile.mkdtemp(prefix="forks-")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{place}/socket")
    listener.listen(128)
    server = subprocess.Popen(
        [REAL_PYTHON, "-P", "-c", LISTEN, str(Path(__file__).parents[1]), str(listener.fileno())],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # as `zenit` sets it; the other threads would not be in forks
        stdin=subprocess.PIPE,
        pass_fds=(listener.fileno(),),
        start_new_session=True,  # Ctrl-C ends those that it forked for
    )
    listener.close()
    os.environ[SOCKET] = f"{place}/socket"
    start_forks()

    def end() -> None:
        with server:
            assert server.stdin is not None
            server.stdin.close()
        shutil.rmtree(place, ignore_errors=True)

    atexit.register(end)


def start_forks() -> None:
    """What this process starts is a fork from now on."""
    sys.executable = STAND_IN
    for module in [processes, *sys.modules.values()]:
        if getattr(module, "__dict__", {}).get("spawn") is _spawn:
            module.spawn = spawn  # type: ignore[attr-defined]


def spawn(command: Sequence[str], *, log_path: str, environ: Mapping[str, str]) -> int:
    """As processes.spawn."""
    if command[0] == STAND_IN and command[1:3] == ["-P", "-m"]:
        with socket.socket(socket.AF_UNIX) as server, open(os.devnull, "rb") as null, open(log_path, "ab") as log:
            try:
                server.connect(environ[SOCKET])
            except (KeyError, OSError):
                pass
            else:
                streams = array.array("i", [null.fileno(), log.fileno(), log.fileno()])
                server.sendmsg([b"s"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
                server.sendall(json.dumps({"words": list(command), "environment": dict(environ)}).encode() + b"\n")
                answer = server.recv(4, socket.MSG_WAITALL)
                pid = struct.unpack("i", answer)[0] if len(answer) == 4 else REFUSED
                if pid != REFUSED:
                    return int(pid)
        command = [REAL_PYTHON, *command[1:]]
    return _spawn(command, log_path=log_path, environ=environ)


def _build() -> bool:
    """Whether the stand-ins are there; compiled where the source is newer."""
    names = (Path(sys.executable).name, "zenit")
    stale = [name for name in names if not _is_new(STAND_INS / name)]
    if not stale:
        return True
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return False
    STAND_INS.mkdir(exist_ok=True)
    for name in stale:
        making = STAND_INS / f"{name}.{os.getpid()}"
        subprocess.run([compiler, "-O1", "-o", making, SOURCE], check=True)
        making.rename(STAND_INS / name)
    return True


def _is_new(path: Path) -> bool:
    return path.exists() and path.stat().st_mtime > SOURCE.stat().st_mtime
