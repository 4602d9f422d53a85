"""Pure. The bill of materials of an installation, as CycloneDX 1.6 has it, and its comparison with another one.

A component for each Python package, inside it what its wheel bundles. No time and no serial number: the same installation
makes the same text. Wheels differ from machine to machine, so digests count only between bills of the same `platform`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from ...model.errors import InvalidParameter

SPECIFICATION: Final = "1.6"
FILES: Final = "zenitmq:files-sha256"
"""The property with the digest of a package's files: of the sorted lines `path,hash` of its RECORD."""
FOUND_BY: Final = "zenitmq:found-by"
PLATFORM: Final = "zenitmq:platform"
_SEVERAL: Final = re.compile(r" (AND|OR|WITH) ")
_CHARACTERS_MAX: Final = 100  # a longer "licence" is the licence's own text


@dataclass(frozen=True, slots=True)
class Bundled:
    """Something in a wheel that is not of its project. `group`: of a Java archive; `sha256`: of its file, if it has one."""

    name: str
    version: str
    found_by: str
    group: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Package:
    """A Python package. `files_sha256`: "" where nobody noted what was installed. `licence`: as its metadata names it."""

    name: str
    version: str
    files_sha256: str = ""
    licence: str = ""
    requires: tuple[str, ...] = ()
    bundles: tuple[Bundled, ...] = ()


def bill(root: Package, packages: Sequence[Package], platform: str) -> dict[str, Any]:
    """The document. `requires` of each package names others of `packages`."""
    everything = [root, *packages]
    references = {package.name: _purl("pypi", package.name, package.version) for package in everything}
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPECIFICATION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "version": 1,
        "metadata": {
            "component": _package(root, "application"),
            "properties": [{"name": PLATFORM, "value": platform}],
        },
        "components": [_package(package, "library") for package in sorted(packages, key=lambda each: each.name)],
        "dependencies": [
            {
                "ref": references[package.name],
                "dependsOn": sorted({references[name] for name in package.requires if name in references}),
            }
            for package in sorted(everything, key=lambda each: each.name)
        ],
    }


def _package(package: Package, kind: str) -> dict[str, Any]:
    reference = _purl("pypi", package.name, package.version)
    component: dict[str, Any] = {
        "type": kind,
        "bom-ref": reference,
        "name": package.name,
        "version": package.version,
        "purl": reference,
    }
    if 0 < len(package.licence) <= _CHARACTERS_MAX:
        several = _SEVERAL.search(package.licence)
        component["licenses"] = [{"expression": package.licence} if several else {"license": {"name": package.licence}}]
    if package.files_sha256:
        component["properties"] = [{"name": FILES, "value": package.files_sha256}]
    if package.bundles:
        order = sorted(set(package.bundles), key=lambda each: (each.group, each.name, each.version, each.found_by))
        component["components"] = [_bundled(item, reference, number) for number, item in enumerate(order, 1)]
    return component


def _bundled(item: Bundled, outer: str, number: int) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": f"{outer}#{number}-{item.name}",
        "name": item.name,
        "version": item.version,
        "purl": _purl("maven" if item.group else "generic", item.name, item.version, item.group),
        "properties": [{"name": FOUND_BY, "value": item.found_by}],
    }
    if item.group:
        component["group"] = item.group
    if item.sha256:
        component["hashes"] = [{"alg": "SHA-256", "content": item.sha256}]
    return component


def _purl(kind: str, name: str, version: str, group: str = "") -> str:
    """A package URL, as CycloneDX and scanners of known flaws name a package."""
    parts = [quote(part, safe="") for part in (group, name) if part]
    return f"pkg:{kind}/{'/'.join(parts)}" + (f"@{quote(version, safe='')}" if version else "")


def differences(expected: object, found: Mapping[str, Any], path: str) -> list[str]:
    """What is in the installation `found`, and not so in the bill `expected` that was read from `path`; one line each.

    What only `expected` has is no difference: an installation need not have every extra. Raises InvalidParameter.
    """
    known, said = dict(_listed(expected, path)), dict(_listed(found, path))
    same_platform = _platform(expected) == _platform(found)
    lines = []
    for name, component in said.items():
        wanted = known.get(name)
        if wanted is None:
            lines.append(f"{name} {component['version']} is not in {path}")
        elif wanted["version"] != component["version"]:
            lines.append(f"{name} {component['version']} is installed; {path} has {wanted['version']}")
        elif same_platform and _property(wanted, FILES) != _property(component, FILES):
            lines.append(f"{name} {component['version']} has other files than {path} says")
    return lines


def platform_of(document: object, path: str) -> str:
    """For which kind of machine and of Python a bill was made. Raises InvalidParameter."""
    _listed(document, path)
    return _platform(document)


def _listed(document: object, path: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The components, by name. Raises InvalidParameter for what is no bill of materials."""
    return list(_components(document, path))


def _components(document: object, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    wrong = InvalidParameter("FILE", path, "a bill of materials in CycloneDX, as zenit sbom make writes it")
    if not isinstance(document, dict) or document.get("bomFormat") != "CycloneDX":
        raise wrong
    listed = document.get("components", [])
    if not isinstance(listed, list):
        raise wrong
    for component in listed:
        if not isinstance(component, dict) or not isinstance(component.get("name"), str):
            raise wrong
        if not isinstance(component.get("version"), str):
            raise wrong
        yield component["name"], component


def _platform(document: object) -> str:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    return _property(metadata, PLATFORM) if isinstance(metadata, dict) else ""


def _property(owner: Mapping[str, Any], name: str) -> str:
    """The value of a property; "" if there is none."""
    listed = owner.get("properties")
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, dict) and item.get("name") == name:
            return str(item.get("value", ""))
    return ""
