"""The wheel holds every module and every file that the code reads, and nothing of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from zenitmq.model.names import VERSION

ROOT = Path(__file__).parents[2]
NOT_SHIPPED = {"tests", "docs", "build", "dist", "zenitmq.egg-info"}
OF_CLONES = ("deploy/image/", "deploy/compose")  # an image is built from a clone


def shipped_files(root: Path) -> set[str]:
    """What must be in the wheel, as paths inside the package: modules, scripts and templates of every folder of ours."""
    folders = [init.parent for init in root.glob("*/__init__.py") if init.parent.name not in NOT_SHIPPED]
    files = [path for folder in folders for path in folder.rglob("*") if "__pycache__" not in path.parts]
    files += [path for path in root.glob("*.py") if path.name != "setup.py"]
    wanted = {".py", ".sh", ".toml", ".yml", ".json", ".txt", ".service", ".yaml", ".tpl", ".proto", ".desc", ".md"}
    paths = {path.relative_to(root).as_posix() for path in files if path.suffix in wanted}
    return {path for path in paths if not path.startswith(OF_CLONES)} | {"py.typed"}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree, under a name that is no Python identifier."""
    source = tmp_path_factory.mktemp("wheel") / "a clone-of.zenit"
    ignored = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "*.so", "*.c", "tests", "docs")
    shutil.copytree(ROOT, source, ignore=ignored)
    return source


def names_in_wheel(tree: Path, build: str) -> set[str]:
    """What the wheel holds that `build` makes of the tree; no compiler is asked, so that it takes seconds."""
    built = subprocess.run(
        [sys.executable, "-c", f"from setuptools import build_meta; print(build_meta.{build}('../{build}'))"],
        cwd=tree,
        env=os.environ | {"CC": "false"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert built.returncode == 0, built.stderr[-2000:]
    (wheel,) = (tree.parent / build).glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_every_module_and_nothing_else(tree: Path) -> None:
    names = names_in_wheel(tree, "build_wheel")
    package = {name.removeprefix("zenitmq/") for name in names if name.startswith("zenitmq/")}
    assert package == shipped_files(ROOT)
    assert "pyspark_zenit.py" in names, "Spark looks for it beside the package"


def test_an_editable_install_has_what_spark_looks_for(tree: Path) -> None:
    """Spark lists the folders of the path: what an editable install's own finder knows, it does not see."""
    names = names_in_wheel(tree, "build_editable")
    assert any(name.endswith("-packages/pyspark_zenit.py") for name in names)


def test_the_version_is_that_of_the_wheel() -> None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        assert tomllib.load(file)["project"]["version"] == VERSION


def test_every_package_is_listed() -> None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        listed = set(tomllib.load(file)["tool"]["setuptools"]["packages"])
    packages = {
        ".".join(("zenitmq", *init.parent.relative_to(ROOT).parts))
        for folder in ROOT.glob("*/__init__.py")
        if folder.parent.name not in NOT_SHIPPED
        for init in folder.parent.rglob("__init__.py")
    }
    assert listed == packages | {"zenitmq"}
