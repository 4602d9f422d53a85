"""Which test files lead to a kernel by their imports, at any depth: the others run no line of it, in whichever form it is.

Imports inside functions count, those for types alone do not. A name of the package's root leads where the root finds it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import zenitmq

TESTS = Path(__file__).parent
ROOT = TESTS.parent
KERNEL = ROOT / "record" / "kernel.py"


def reaches_kernel(file: Path) -> bool:
    """Whether a test file, or what it imports, imports a kernel."""
    seen: set[Path] = set()
    waiting = [file]
    while waiting:
        found = _imports(waiting.pop()) - seen
        if KERNEL in found:
            return True
        seen |= found
        waiting += found
    return False


@cache
def _imports(file: Path) -> frozenset[Path]:
    """The files of ours that a file imports, those of the packages around them too."""
    whole = set(_names(ast.parse(file.read_text(encoding="utf-8")), file))
    names = {name.rsplit(".", above)[0] for name in whole for above in range(name.count(".") + 1)}
    return frozenset(path for name in names if (path := _file_of(name)) is not None)


def _names(node: ast.AST, file: Path) -> Iterator[str]:
    """Dotted names that may be modules: `from a import b` names a and a.b."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = _base(node, file)
        yield base
        for alias in node.names:
            home = zenitmq._HOME_OF.get(alias.name) if base == "zenitmq" else None
            yield f"{base}{home}" if home else f"{base}.{alias.name}"
    for child in ast.iter_child_nodes(node):
        yield from _names(child, file)


def _base(node: ast.ImportFrom, file: Path) -> str:
    if node.level == 0:
        return node.module or ""
    folders = file.relative_to(ROOT).parts[: -node.level]
    return ".".join(("zenitmq", *folders, *filter(None, [node.module])))


def _file_of(name: str) -> Path | None:
    first, *rest = name.split(".")
    place = ROOT.joinpath(*rest) if first == "zenitmq" else TESTS.joinpath(first, *rest)
    for file in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
        if file.is_file():
            return file
    return None
