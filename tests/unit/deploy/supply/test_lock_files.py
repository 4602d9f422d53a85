"""The lock files have all that pyproject.toml asks for, in one choice of versions, each with its hashes and no address."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[4]
LOCKS = ROOT / "deploy" / "supply" / "locks"
RENEW = "renew them: deploy/supply/renew.sh"
EXTRAS = ("spark", "prometheus", "otel", "backup", "proxy", "dev")
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)(?: ; (.+?))? \\$")


@dataclass(frozen=True)
class Pin:
    name: str
    version: str
    marker: str
    hashes: int

    def counts_here(self) -> bool:
        return not self.marker or Marker(self.marker).evaluate()


def pins(name: str) -> list[Pin]:
    found: list[Pin] = []
    for line in (LOCKS / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if match := PIN.match(line):
            found.append(Pin(canonicalize_name(match[1]), match[2], match[3] or "", 0))
        elif re.match(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$", line):
            last = found.pop()
            found.append(Pin(last.name, last.version, last.marker, last.hashes + 1))
        else:
            assert re.match(r"^ *#", line), (
                f"{name}.txt has a line that is neither a pin, a hash nor a comment: {line!r}"
            )
    return found


def wanted(name: str) -> list[Requirement]:
    """What pyproject.toml asks for, in the words of the lock file `name`."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        document = tomllib.load(file)
    if name == "build":
        listed = document["build-system"]["requires"]
    else:
        extras = document["project"]["optional-dependencies"]
        assert set(extras) == set(EXTRAS), f"a lock file for each extra; {RENEW}"
        listed = document["project"]["dependencies"] + extras.get(name, [])
    return [Requirement(text) for text in listed]


@pytest.mark.parametrize("name", ["build", "run", *EXTRAS])
def test_a_lock_file_is_in_step_with_pyproject(name: str) -> None:
    by_name: dict[str, list[Pin]] = {}
    for pin in pins(name):
        by_name.setdefault(pin.name, []).append(pin)
        assert pin.hashes, pin
    for requirement in wanted(name):
        chosen = by_name.get(canonicalize_name(requirement.name))
        assert chosen, f"{name}.txt lacks {requirement.name}; {RENEW}"
        for pin in chosen:
            assert requirement.specifier.contains(pin.version), f"{name}.txt: {pin} is not {requirement}; {RENEW}"


@pytest.mark.parametrize("name", ["build", "run", *EXTRAS])
def test_a_lock_file_has_what_its_packages_need(name: str) -> None:
    """What is installed tells it, where it has the same version: so no line can be lost."""
    here = {pin.name: pin.version for pin in pins(name) if pin.counts_here()}
    for pinned, version in here.items():
        try:
            installed = metadata.distribution(pinned)
        except metadata.PackageNotFoundError:
            continue
        for text in installed.requires or () if installed.version == version else ():
            requirement = Requirement(text)
            environment = default_environment() | {"extra": ""}
            if requirement.marker is None or requirement.marker.evaluate(environment):
                assert canonicalize_name(requirement.name) in here, f"{pinned} needs {requirement}; {RENEW}"


def test_all_lock_files_are_one_choice_of_versions() -> None:
    chosen: dict[tuple[str, str], str] = {}
    for name in ("build", "run", *EXTRAS):
        for pin in pins(name):
            assert chosen.setdefault((pin.name, pin.marker), pin.version) == pin.version, (
                f"{pin} in {name}.txt; {RENEW}"
            )
            assert "://" not in (LOCKS / f"{name}.txt").read_text(encoding="utf-8"), "it names an index"
