"""Pages of the documentation, the blocks in them, and a shell that runs what a page says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[3]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SESSION_S = 280  # some start Spark several times, beside other tests
FROM_THE_CLONE = {"./quickstart.sh"}  # pages' commands run in a directory of their own
SEGMENT_BYTES = 64 << 20  # where a page says nothing of it: to make a GiB ready takes a core most of a second


def blocks(page: Path, language: str) -> list[str]:
    return [text for name, text in BLOCK.findall(page.read_text(encoding="utf-8")) if name == language]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def user(home: Path) -> dict[str, str]:
    """The environment of a user whose home that is."""
    binaries = (Path(sys.executable).parent, Path(sys.prefix, "bin"))
    environment = {
        **os.environ,
        "HOME": str(home),
        "PATH": os.pathsep.join((*map(str, binaries), os.environ["PATH"])),
        "ZENIT_STORE__SEGMENT_BYTES": str(SEGMENT_BYTES),
    }
    for name in ("ZENIT_NAMESRV", "ZENIT_CONTEXT", "XDG_CONFIG_HOME"):
        environment.pop(name, None)
    return environment


def run_script(script: str, home: Path, *, cwd: Path) -> None:
    """Runs a script that must succeed line by line."""
    command = ["bash", "-euo", "pipefail", "-c", script]
    with subprocess.Popen(
        command,
        env=user(home),
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            printed, errors = shell.communicate(timeout=SESSION_S)
        finally:
            with suppress(ProcessLookupError):  # what it left in the background
                os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, f"{script}\n--- printed\n{printed}\n--- and\n{errors}"


def run_session(script: str, home: Path, *, cwd: Path) -> None:
    """Runs a script; whatever cluster it leaves up in its home is taken down."""
    try:
        run_script(script, home, cwd=cwd)
    finally:
        last = home / ".zenit" / "last"
        if last.exists():
            down = ["zenit", "down", "--dir", last.read_text().strip()]
            subprocess.run(down, env=user(home), capture_output=True, timeout=60, check=False)
