"""The kernel compiled with AddressSanitizer, in a folder of their own, and how a process comes to run on it.

The folder is named by what it is made of, so that it is never stale. AddressSanitizer must be the first library of a
process: `environment` says what a child is to be started with. A single block of more than ALLOCATION_MIB is refused there,
which Python raises as MemoryError: no decoder may ask for so much.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from zenitmq.record.kernel_join import PARTS, joined

ROOT = Path(__file__).parents[2]
PACKAGE = "zenitmq.record"
NAME = f"{PACKAGE}.kernel"
ALLOCATION_MIB = 96
# Without optimization it is compiled in a sixth of the time, and decodes as many cases: most of a case is Python.
_FLAGS = "-O0 -g1 -fno-omit-frame-pointer -fsanitize=address -fPIC -shared -fwrapv -DNDEBUG -w".split()
_OPTIONS = (
    "detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=16:handle_segv=1:abort_on_error=0:exitcode=99"
    f":max_allocation_size_mb={ALLOCATION_MIB}"
)


class NoCompiler(Exception):
    """There is no gcc, or its AddressSanitizer or Python's headers are missing. Args: what."""


def asan_library() -> str:
    """The path of gcc's libasan. Raises NoCompiler."""
    compiler = shutil.which("gcc")
    if compiler is None:
        raise NoCompiler("gcc")
    found = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not os.path.isabs(found):
        raise NoCompiler("libasan")
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        raise NoCompiler("Python.h")
    return os.path.realpath(found)


def build() -> Path:
    """The folder with the kernel; compiles it where it is not there yet. Raises NoCompiler, CalledProcessError."""
    asan_library()
    source = joined({part: (ROOT / "record" / f"{part}.py").read_text("utf-8") for part in PARTS})
    made_of = " ".join([source, sys.version, *_FLAGS]).encode()
    folder = ROOT / "build" / "fuzz" / hashlib.sha256(made_of).hexdigest()[:16]
    if not folder.exists():
        making = folder.with_name(f"{folder.name}.{os.getpid()}")
        making.mkdir(parents=True)
        _compile(source, making)
        try:
            making.rename(folder)
        except OSError:  # another process was as quick
            shutil.rmtree(making)
    return folder


def _compile(source: str, folder: Path) -> None:
    text, code = folder / "kernel.py", folder / "kernel.c"
    text.write_text(source, encoding="utf-8")
    cython = [sys.executable, "-m", "cython", "-3", "--module-name", NAME, "-o", str(code), str(text)]
    subprocess.run(cython, check=True, stdout=subprocess.DEVNULL)
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run(
        ["gcc", *_FLAGS, include, "-o", str(folder / f"kernel{EXTENSION_SUFFIXES[0]}"), str(code)], check=True
    )


def environment() -> dict[str, str]:
    """Of a child that is to run on them. Raises NoCompiler."""
    return os.environ | {"LD_PRELOAD": asan_library(), "ASAN_OPTIONS": _OPTIONS, "PYTHONMALLOC": "malloc"}


def use(folder: Path) -> None:
    """Makes the package run on the kernel of `build`; before anything imports it."""
    if NAME in sys.modules:
        raise RuntimeError(f"{NAME} is imported already")
    path = str(folder / f"kernel{EXTENSION_SUFFIXES[0]}")
    spec = spec_from_file_location(NAME, path, loader=ExtensionFileLoader(NAME, path))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[NAME] = module_from_spec(spec)
    spec.loader.exec_module(module)
    importlib.import_module(PACKAGE).kernel = module  # type: ignore[attr-defined]
