"""The packages of this installation: ours, and each that it needs, as their own metadata says."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import metadata
from typing import Any, Final

from .bill_of_materials import Package, bill
from .bundled import bundled_in

ROOT: Final = "zenitmq"
_NAME: Final = re.compile(r"^[A-Za-z0-9._-]+")
_DEV: Final = re.compile(r"""extra\s*==\s*['"]dev['"]""")
_EXTRA: Final = re.compile(r"extra\s*==")
_DIGEST: Final = "sha256"


def bill_of_installation() -> dict[str, Any]:
    """The bill of materials of what is installed here; extras count if their packages are there, `dev` does not."""
    root, *packages = [package_of(found) for found in distributions()]
    return bill(root, packages, f"{sysconfig.get_platform()}-{sys.implementation.cache_tag}")


def distributions(root: str = ROOT) -> list[metadata.Distribution]:
    """That of `root` first, then all that it needs and that are installed. Raises PackageNotFoundError without the first."""
    root = normal(root)
    found = {root: metadata.distribution(root)}
    waiting = needed_by(root, found[root].requires or ())
    while waiting:
        name = waiting.pop()
        if name not in found:
            with suppress(metadata.PackageNotFoundError):
                found[name] = metadata.distribution(name)
                waiting += needed_by(name, found[name].requires or ())
    return [found[name] for name in (root, *sorted(found.keys() - {root}))]


def needed_by(name: str, requirements: Iterable[str]) -> list[str]:
    """The names in a package's requirements, without what only its extras need; of ours, only without `dev`."""
    left_out = _DEV if name == ROOT else _EXTRA
    kept = [text for text in requirements if not left_out.search(text)]
    return sorted({normal(match[0]) for text in kept if (match := _NAME.match(text))})


def normal(name: str) -> str:
    """A package's name as all compare it: `Jinja2` is `jinja2`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def package_of(found: metadata.Distribution) -> Package:
    """What the bill has of one distribution."""
    name = normal(found.metadata["Name"])
    root = str(found.locate_file(""))
    files = [str(file) for file in found.files or () if os.path.isfile(os.path.join(root, file))]
    return Package(
        name=name,
        version=found.version,
        files_sha256="" if name == ROOT else files_digest(_record(found)),
        licence=_licence(found),
        requires=tuple(needed_by(name, found.requires or ())),
        bundles=() if name == ROOT else bundled_in(name, files, root),
    )


def _licence(found: metadata.Distribution) -> str:
    """As its metadata names it, in the newest of the three ways that it uses."""
    said = [text for key in ("License-Expression", "License") for text in found.metadata.get_all(key) or ()]
    said += [text.rpartition(" :: ")[2] for text in found.metadata.get_all("Classifier") or () if "License" in text]
    return next((text.strip() for text in said if text), "")


def _record(found: metadata.Distribution) -> list[tuple[str, str]]:
    """(path, digest as in RECORD) of each file of which a digest was noted at its installation."""
    files = ((str(file), file.hash) for file in found.files or ())
    return [(path, noted.value) for path, noted in files if noted is not None and noted.mode == _DIGEST]


def files_digest(record: Iterable[tuple[str, str]]) -> str:
    """One digest of all files that come out of the wheel the same everywhere; "" if none was noted.

    Not of them: what an installer writes itself, into the metadata and outside of the packages' folder.
    """
    kept = sorted((path, value) for path, value in record if not path.startswith("..") and ".dist-info/" not in path)
    lines = "".join(f"{path},{value}\n" for path, value in kept)
    return hashlib.sha256(lines.encode()).hexdigest() if lines else ""


def changed_files(root: str = ROOT) -> Iterator[str]:
    """What was changed or removed since it was installed; one line for each file, or for a package that has no record of
    its files. A file that was added is not seen."""
    for found in distributions(root):
        record = _record(found)
        if not record:
            yield f"{found.metadata['Name']} {found.version} has no record of its files: they were not compared"
        for path, value in record:
            place = os.path.normpath(str(found.locate_file(path)))
            try:
                with open(place, "rb") as file:
                    digest = hashlib.file_digest(file, _DIGEST).digest()
            except FileNotFoundError:
                yield f"{place} of {found.metadata['Name']} {found.version} is missing"
                continue
            except OSError as error:
                yield f"{place} of {found.metadata['Name']} {found.version} cannot be read ({error.strerror})"
                continue
            if base64.urlsafe_b64encode(digest).decode().rstrip("=") != value:
                yield f"{place} of {found.metadata['Name']} {found.version} is not as it was installed"
