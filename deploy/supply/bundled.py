"""What wheels bundle: libraries in C, crates, Java archives; each with the version that the files themselves tell.

Some libraries are asked (a function of theirs answers), some write their version into every binary that they are in, the
others show it in a file's name. What is linked into a wheel and leaves no version in it, nobody finds: then the version of
the wheel itself is what there is to go by.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from ...store.rocksdb_build import rocksdb_version
from .bill_of_materials import Bundled

_SHARED: Final = re.compile(r"\.(so(\.[0-9]+)*|dylib|dll|pyd)$")
_GRAFTED: Final = re.compile(r"^(lib[A-Za-z0-9_+]+?)(?:-[0-9a-f]{6,}|_?-[0-9a-f]{6,})+\.so(?:\.([0-9.]+))?$")
"""A library that was put into a wheel, as in libsodium-6c8f8377.so.26.4.0: its name, the version of its interface."""
_ARCHIVE: Final = re.compile(r"^(.+?)-(\d[^/]*)\.jar$")

_MARKS: Final[tuple[tuple[bytes, re.Pattern[bytes], str], ...]] = (
    (b"OpenBLAS ", re.compile(rb"OpenBLAS (\d+(?:\.\d+)+)"), "OpenBLAS"),
    (b"OpenSSL ", re.compile(rb"OpenSSL (\d+\.\d+\.\d+[a-z]?) [\d. ]*\d+ [A-Z][a-z]{2} \d{4}"), "openssl"),
    (b"flate ", re.compile(rb"flate (\d+(?:\.\d+)+) Copyright"), "zlib"),
    (b"libcurl/", re.compile(rb"libcurl/(\d+\.\d+\.\d+)"), "curl"),
    (b"aws-sdk-cpp/", re.compile(rb"aws-sdk-cpp/(\d+\.\d+\.\d+)"), "aws-sdk-cpp"),
    (b"vcpkg/buildtrees/", re.compile(rb"vcpkg/buildtrees/([a-z0-9-]+)/src/v?(\d[\w.]*)-[0-9a-f]+\.clean"), ""),
    (b"cargo/registry/src/", re.compile(rb"cargo/registry/src/[^/\0]+/([\w-]+?)-(\d+\.\d+\.\d+[\w.+-]*)/"), ""),
)
"""(what the mark begins with, the mark, the library's name; "" = the mark's first group is the name)"""


def bundled_in(name: str, files: Sequence[str], root: str) -> tuple[Bundled, ...]:
    """What the package `name` bundles, each library and version once. `files`: paths of its RECORD, relative to `root`."""
    first: dict[tuple[str, str, str], Bundled] = {}
    for item in _found_in(name, [file for file in sorted(files) if not file.startswith("..")], root):
        first.setdefault((item.group, item.name, item.version), item)
    return tuple(first.values())


def _found_in(name: str, files: Sequence[str], root: str) -> Iterator[Bundled]:
    for file in files:
        path, last = os.path.join(root, file), os.path.basename(file)
        if _SHARED.search(last):
            yield from _shared_library(path, file)
        elif last == "release" and "java" in file:
            yield from _java(path, file)
        elif file.endswith(".jar"):
            yield from _archive(path, file)
        elif ".dist-info/sboms/" in file and file.endswith(".json"):
            yield from _own_bill(path, file)
    yield from _asked(name)


def _shared_library(path: str, file: str) -> Iterator[Bundled]:
    """What is linked into a library; and itself, if it was put into the wheel as a file of its own."""
    with open(path, "rb") as binary:
        data = binary.read()
    written = sorted(set(marks_in(data)))
    grafted = _GRAFTED.match(os.path.basename(file))
    name = grafted[1].rstrip("_") if grafted else ""
    digest = hashlib.sha256(data).hexdigest() if grafted else ""
    itself = [each for each in written if name and each[0].lower() in name]
    for each in written:
        yield Bundled(*each, found_by=f"text in {file}", sha256=digest if each in itself else "")
    if grafted and not itself:
        version = _library_version(name, path)
        how = f"asked of {file}" if version else f"interface version of {file}"
        yield Bundled(name, version or grafted[2] or "", how, sha256=digest)


def marks_in(data: bytes) -> Iterator[tuple[str, str]]:
    """The versions that libraries leave in a binary: (name, version), some more than once."""
    for beginning, mark, name in _MARKS:
        at = data.find(beginning)
        while at >= 0:
            if found := mark.match(data, at):
                groups = [group.decode("ascii") for group in found.groups()]
                yield (name, groups[0]) if name else (groups[0], groups[1])
            at = data.find(beginning, at + len(beginning))


def _library_version(name: str, path: str) -> str:
    """As the library itself says; "" if we do not know how to ask it."""
    if name == "libzmq":
        numbers = [ctypes.c_int() for _ in range(3)]
        ctypes.CDLL(path).zmq_version(*map(ctypes.byref, numbers))
        return ".".join(str(number.value) for number in numbers)
    if name == "libsodium":
        ask = ctypes.CDLL(path).sodium_version_string
        ask.restype = ctypes.c_char_p
        return str(ask().decode("ascii"))
    return ""


def _archive(path: str, file: str) -> Iterator[Bundled]:
    """A Java archive: by the names that Maven put into it, else by its own. Those without a version are part of a runtime."""
    last = os.path.basename(file)
    parts = _ARCHIVE.match(last)
    if parts is None:
        return
    with open(path, "rb") as archive:
        digest = hashlib.sha256(archive.read()).hexdigest()
    group, name, version = "", parts[1], parts[2]
    with zipfile.ZipFile(path) as inside:
        for entry in inside.namelist():
            if entry.startswith("META-INF/maven/") and entry.endswith("/pom.properties") and entry.count("/") == 4:
                _, _, its_group, artifact, _ = entry.split("/")
                if last.startswith(f"{artifact}-") and last[len(artifact) + 1].isdigit():
                    group, name, version = its_group, artifact, last[len(artifact) + 1 : -len(".jar")]
    yield Bundled(name, version, f"name of {file}", group, digest)


def _java(path: str, file: str) -> Iterator[Bundled]:
    with open(path, encoding="utf-8") as release:
        if found := re.search(r'^JAVA_VERSION="([^"]+)"', release.read(), re.MULTILINE):
            yield Bundled("openjdk", found[1], f"text in {file}")


def _own_bill(path: str, file: str) -> Iterator[Bundled]:
    """What a wheel says in a bill of its own, if it has one (PEP 770)."""
    with open(path, encoding="utf-8") as text, suppress(ValueError):
        document = json.load(text)
        listed = document.get("components") if isinstance(document, dict) else None
        for component in listed if isinstance(listed, list) else ():
            if isinstance(component, dict) and isinstance(component.get("name"), str):
                yield Bundled(component["name"], str(component.get("version", "")), f"bill in {file}")


def _asked(name: str) -> Iterator[Bundled]:
    """What a package says of the library that is compiled into it."""
    if name in _ASKED:
        library, version_of = _ASKED[name]
        with suppress(ImportError, AttributeError):
            yield Bundled(library, version_of(), f"asked of {name}")


def _rocksdb() -> str:
    with tempfile.TemporaryDirectory() as scratch:
        return rocksdb_version(scratch)


_ASKED: Final[dict[str, tuple[str, Callable[[], str]]]] = {
    "lz4": ("lz4", lambda: str(importlib.import_module("lz4").library_version_string())),
    "zstandard": ("zstd", lambda: ".".join(map(str, importlib.import_module("zstandard").ZSTD_VERSION))),
    "isal": ("isa-l", lambda: str(importlib.import_module("isal").ISAL_VERSION)),
    "rocksdict": ("rocksdb", _rocksdb),
    "pyarrow": ("arrow-cpp", lambda: str(importlib.import_module("pyarrow").cpp_version)),
}
