"""A compiled kernel is not run beside another source than its own, in a checkout; elsewhere nothing is asked."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zlib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import zenitmq
from zenitmq.model.errors import KernelOutdated
from zenitmq.record.kernel_join import PARTS
from zenitmq.record.kernel_source import check_source

ROOT = Path(zenitmq.__path__[0])
LOOK = "import importlib, sys; importlib.import_module(sys.argv[1])"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder like the project's, with the sources of a kernel."""
    (tmp_path / "record").mkdir()
    (tmp_path / "setup.py").touch()
    for part in PARTS:
        (tmp_path / "record" / f"{part}.py").write_bytes(b"source")
    return tmp_path


def extension_in(checkout: Path) -> str:
    return str(checkout / "record" / f"kernel{EXTENSION_SUFFIXES[0]}")


def test_its_own_source_passes_and_another_is_refused_with_the_remedy(checkout: Path) -> None:
    check_source(extension_in(checkout), zlib.crc32(b"source" * len(PARTS)))
    with pytest.raises(KernelOutdated) as refused:
        check_source(extension_in(checkout), zlib.crc32(b"source of yesterday"))
    text = str(refused.value)
    assert Path(extension_in(checkout)).name in text
    assert f"pip install -e {checkout}" in text
    assert "\n" not in text


def test_where_there_is_no_checkout_or_no_source_nothing_is_asked(checkout: Path) -> None:
    (checkout / "setup.py").rename(checkout / "else.py")
    check_source(extension_in(checkout), 0)
    (checkout / "else.py").rename(checkout / "setup.py")
    (checkout / "record" / f"{PARTS[-1]}.py").unlink()
    check_source(extension_in(checkout), 0)


def test_a_kernel_that_was_compiled_asks(tmp_path: Path) -> None:
    """What setup.py has built here, in a copy of the package: as it is, with another source, and as pip installs it."""
    built = list((ROOT / "record").glob(f"kernel*{EXTENSION_SUFFIXES[0]}"))
    if not built:
        pytest.skip("the kernel is not compiled here")
    copy = tmp_path / "zenitmq"
    for folder in ("record", "model"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "*.c"))
    (copy / "__init__.py").touch()
    (copy / "setup.py").touch()

    def look() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-c", LOOK, "zenitmq.record.kernel"]
        return subprocess.run(
            command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=60, check=False
        )

    assert look().returncode == 0, look().stderr
    with open(copy / "record" / f"{PARTS[0]}.py", "a", encoding="utf-8") as source:
        source.write("# another line\n")
    refused = look()
    assert refused.returncode != 0, "compile the kernels again: this one does not ask for its source"
    assert "KernelOutdated" in refused.stderr
    (copy / "setup.py").unlink()
    assert look().returncode == 0
