"""Which files coverage is measured of: those whose docstrings say that they are pure. A plugin of coverage.

What the word means, and that each file that says it is so, and each that is so says it: architecture/test_pure_files.py.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PURE = re.compile(r"\bPure\b(?=[.:;,]| and)")


def says_pure(source: str) -> bool:
    """Whether a module's docstring says it: "Pure.", or "Pure: ..." with what follows from it."""
    return PURE.search(ast.get_docstring(ast.parse(source)) or "") is not None


def package_files(root: Path = ROOT) -> list[Path]:
    """Each file of the package."""
    return sorted(path for init in root.glob("*/__init__.py") for path in init.parent.rglob("*.py"))


class _PureFiles:
    def configure(self, config: Any) -> None:
        config.set_option("run:include", [str(file) for file in package_files() if says_pure(file.read_text("utf-8"))])


def coverage_init(registry: Any, _: dict[str, str]) -> None:
    """Called by coverage (pyproject.toml: `plugins`)."""
    registry.add_configurer(_PureFiles())
