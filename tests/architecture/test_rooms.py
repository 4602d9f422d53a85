"""A newcomer can take in each folder of the package at a glance."""

from __future__ import annotations

from pathlib import Path

from measured_files import ROOT, package_files

MODULES_MAX = 20


def test_no_folder_holds_more_modules_than_one_can_name() -> None:
    modules: dict[Path, int] = {}
    for file in package_files():
        if file.name != "__init__.py":
            modules[file.parent] = modules.get(file.parent, 0) + 1
    crowded = {str(folder.relative_to(ROOT)): count for folder, count in modules.items() if count > MODULES_MAX}
    assert not crowded
