"""Which Python the set-up makes `.venv` of."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def found(path: str, named: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", "-c", ". deploy/set_up.sh; find_python"],
        cwd=ROOT,
        env=os.environ | {"PATH": path, "PYTHON": named},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def first_on_path(tmp_path: Path) -> Path:
    """A `python3` that is found before any other."""
    python = tmp_path / "python3"
    python.symlink_to(sys.executable)
    return python


def test_the_first_on_the_path(first_on_path: Path) -> None:
    assert found(f"{first_on_path.parent}:{os.environ['PATH']}").stdout == f"{first_on_path}\n"


def test_or_the_one_that_is_named(first_on_path: Path) -> None:
    path = f"{first_on_path.parent}:{os.environ['PATH']}"
    assert found(path, sys.executable).stdout == f"{sys.executable}\n"


def test_no_other_where_the_named_one_is_missing_or_too_old(first_on_path: Path, tmp_path: Path) -> None:
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")  # what `sys.exit(version < (3, 11))` ends with
    old.chmod(0o755)
    for named in (str(tmp_path / "missing"), str(old)):
        ended = found(f"{first_on_path.parent}:{os.environ['PATH']}", named)
        assert (ended.returncode, ended.stdout) == (1, "")
