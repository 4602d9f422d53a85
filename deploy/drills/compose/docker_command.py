"""The program `docker`: what it prints, or one line that says what is wrong.

It runs in a session of its own: Ctrl-C ends the drill, which then still has to mend what it did.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import Final

from ....model.errors import RequestTimeout, RequirementMissing, SystemFault

COMMAND_S: Final = 90
REMEDY: Final = "install it: sudo apt-get install -y docker.io"


def docker(*arguments: str, timeout_s: float = COMMAND_S) -> bytes:
    """The standard output. Raises RequirementMissing, RequestTimeout; SystemFault with what the program says."""
    return _run(arguments, timeout_s).stdout


def docker_both(*arguments: str, timeout_s: float = COMMAND_S) -> bytes:
    """Standard output, then standard error. Raises the same."""
    done = _run(arguments, timeout_s)
    return done.stdout + done.stderr


def _run(arguments: tuple[str, ...], timeout_s: float) -> subprocess.CompletedProcess[bytes]:
    path = shutil.which("docker")
    if path is None:
        raise RequirementMissing("docker", REMEDY)
    try:
        done = subprocess.run(  # noqa: S603 (a program found on the path, and our own arguments)
            [path, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise RequestTimeout(f"docker {arguments[0]}", round(timeout_s * 1000)) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise SystemFault(f"docker {arguments[0]}: {said[-1]}")
    return done
