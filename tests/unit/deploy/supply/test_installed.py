"""What is installed, what is inside it, and what was changed since, as the files themselves tell."""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from zenitmq.deploy.supply.bundled import bundled_in, marks_in
from zenitmq.deploy.supply.installed import changed_files, distributions, files_digest, needed_by, package_of

BINARY = b"\0".join(
    [
        b"\x7fELF OpenBLAS 0.3.31.188.0  USE64BITINT",
        b"OpenBLAS : Program is Terminated",
        b"OpenSSL 3.6.5 29 Sep 2026",
        b" inflate 1.3.1 Copyright 1995-2024 Mark Adler ",
        b"libcurl/8.23.0",
        b"/opt/vcpkg/buildtrees/s2n/src/v1.7.6-df55717cea.clean/utils/s2n_timer.c:34",
        b"/root/.cargo/registry/src/index-1949cf8c/bzip2-sys-0.1.13+1.0.8/lib.rs",
        b"/root/.cargo/registry/src/index-1949cf8c/serde_json-1.0.140/src/de.rs",
        b"OpenSSL ",
    ]
)


def test_libraries_are_known_by_the_versions_that_they_write() -> None:
    assert sorted(marks_in(BINARY)) == [
        ("OpenBLAS", "0.3.31.188.0"),
        ("bzip2-sys", "0.1.13+1.0.8"),
        ("curl", "8.23.0"),
        ("openssl", "3.6.5"),
        ("s2n", "1.7.6"),
        ("serde_json", "1.0.140"),
        ("zlib", "1.3.1"),
    ]


def test_files_in_a_wheel_tell_what_they_are(tmp_path: Path) -> None:
    files = {
        "it.libs/libgfortran-040039e1-0352e75f.so.5.0.0": b"\x7fELF",
        "it.libs/libscipy_openblas64_-32a4b2a6.so": b"OpenBLAS 0.3.31  x",
        "it/java-runtime/release": b'JAVA_VERSION="25.0.2"\nMODULES="java.base"\n',
        "it/java-runtime/lib/jrt-fs.jar": b"PK",
        "it-1.dist-info/sboms/auditwheel.cdx.json": b'{"components": [{"name": "libffi", "version": "3.4"}, 7]}',
        "it-1.dist-info/sboms/broken.json": b"{",
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    jars = {"spark-core_2.13-4.3.0": "org.apache.spark/spark-core_2.13", "plain-1.0": ""}
    for jar, inside in jars.items():
        with zipfile.ZipFile(tmp_path / "it" / f"{jar}.jar", "w") as archive:
            archive.writestr("META-INF/maven/org.else/where/pom.properties", "")
            if inside:
                archive.writestr(f"META-INF/maven/{inside}/pom.properties", "")
    names = [*files, *(f"it/{jar}.jar" for jar in jars), "../../../bin/it"]
    found = {(item.group, item.name, item.version): item.sha256 for item in bundled_in("it", names, str(tmp_path))}
    assert set(found) == {
        ("", "libgfortran", "5.0.0"),
        ("", "OpenBLAS", "0.3.31"),
        ("", "openjdk", "25.0.2"),
        ("", "libffi", "3.4"),
        ("org.apache.spark", "spark-core_2.13", "4.3.0"),
        ("", "plain", "1.0"),
    }
    assert found["", "OpenBLAS", "0.3.31"] == hashlib.sha256(b"OpenBLAS 0.3.31  x").hexdigest()


@pytest.mark.parametrize(
    ("name", "libraries"),
    [
        ("pyzmq", {"libzmq", "libsodium"}),
        ("numpy", {"OpenBLAS"}),
        ("rocksdict", {"rocksdb"}),
        ("lz4", {"lz4"}),
        ("zstandard", {"zstd"}),
        ("isal", {"isa-l"}),
    ],
)
def test_the_wheels_that_we_use_tell_theirs(name: str, libraries: set[str]) -> None:
    package = package_of(metadata.distribution(name))
    versions = {item.name: item.version for item in package.bundles}
    if not any(".libs/" in str(file) for file in metadata.files(name) or ()) and name in ("pyzmq", "numpy"):
        libraries = set()  # built here, with libraries of the machine
    assert libraries <= set(versions)
    assert all(versions[library][0].isdigit() for library in libraries)


def install(site: Path, name: str, requires: list[str]) -> Path:
    """A package of one module, as an installer leaves it."""
    module = site / f"{name}.py"
    module.write_text("answer = 42\n")
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    needs = "".join(f"Requires-Dist: {text}\n" for text in requires)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\nLicense-Expression: MIT\n{needs}"
    )
    digest = base64.urlsafe_b64encode(hashlib.sha256(module.read_bytes()).digest()).decode().rstrip("=")
    (info / "RECORD").write_text(f"{name}.py,sha256={digest},12\n{name}-1.0.dist-info/RECORD,,\n")
    return module


def test_files_that_were_changed_or_removed_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    first = install(
        tmp_path, "zt_first", ["zt_second>=1; python_version > '3'", "zt-third; extra == 'more'", "zt_absent"]
    )
    second = install(tmp_path, "zt_second", ["zt_first"])
    assert [found.metadata["Name"] for found in distributions("zt_first")] == ["zt_first", "zt_second"]
    assert list(changed_files("zt_first")) == []
    first.write_text("answer = 43\n")
    second.unlink()
    assert list(changed_files("zt_first")) == [
        f"{first} of zt_first 1.0 is not as it was installed",
        f"{second} of zt_second 1.0 is missing",
    ]


def test_files_that_cannot_be_compared_are_named_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes a package's record away has changed it, as has who lays a folder in a file's place."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    first = install(tmp_path, "zt_first", ["zt_second"])
    install(tmp_path, "zt_second", [])
    (tmp_path / "zt_second-1.0.dist-info" / "RECORD").unlink()
    first.unlink()
    first.mkdir()
    assert list(changed_files("zt_first")) == [
        f"{first} of zt_first 1.0 cannot be read (Is a directory)",
        "zt_second 1.0 has no record of its files: they were not compared",
    ]


def test_what_extras_of_others_need_does_not_count_and_dev_of_ours_neither() -> None:
    ours = ["pyzmq<28,>=27", 'pyspark>=4; extra == "spark"', 'ruff; extra == "dev"', "Jinja2[x]"]
    assert needed_by("zenitmq", ours) == ["jinja2", "pyspark", "pyzmq"]
    assert needed_by("other", ours) == ["jinja2", "pyzmq"]


def test_a_digest_is_of_what_every_installer_leaves_alike() -> None:
    record = [("a.py", "one"), ("b.py", "two")]
    same = files_digest([*reversed(record), ("../../bin/a", "x"), ("a-1.dist-info/WHEEL", "y")])
    assert files_digest(record) == same != files_digest(record[:1])
    assert files_digest([("../x", "y")]) == ""
