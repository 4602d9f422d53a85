"""Joins the parts of the kernel, one file per job, into the source of the compiled kernel. Pure.

Compiled functions can be inlined within one file only, so the parts are compiled as one extension, `record/kernel`. The
numbers that codes.py names are written into the joined source: a name would cost a look-up for each byte that is read.
Without a compiler, `record/kernel.py` imports the parts as they are.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Mapping
from typing import Final

PARTS: Final = (
    "codes",
    "primitives",
    "index",
    "encoding",
    "sequences",
    "inner_batches",
    "lights",
    "runs",
    "units",
    "messages",
    "columns",
)
"""Each imports only parts listed before it."""

NUMBER_MAX: Final = (1 << 31) - 1  # a larger number would become a Python object; the kernel has it as a C variable

_HEAD: Final = '''\
# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=True, nonecheck=False
"""The kernel: the one place where code touches every record (record/kernel_join.py says how it was made)."""

from __future__ import annotations

'''


def joined(sources: Mapping[str, str]) -> str:
    """The source of one module, joined from the parts' sources by name. Raises KeyError for a missing part."""
    numbers = named_numbers(sources["codes"])
    imports: dict[str, None] = {}
    bodies = []
    for part in PARTS:
        kept, body = _split(sources[part])
        imports |= dict.fromkeys(kept)
        bodies.append(body if part == "codes" else _with_numbers(body, numbers))
    return _HEAD + "\n".join(imports) + "\n\nCOMPILED = True\n\n\n" + "\n\n\n".join(bodies)


def named_numbers(source: str) -> dict[str, int]:
    """The names of a module that are integers up to NUMBER_MAX."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            try:
                value = ast.literal_eval(node.value)
            except ValueError:
                continue
            if isinstance(value, int) and abs(value) <= NUMBER_MAX:
                found[node.target.id] = value
    return found


def _split(source: str) -> tuple[list[str], str]:
    """(imports of modules that are not parts, the rest without its docstring)."""
    lines = source.split("\n")
    kept = []
    for node in reversed(ast.parse(source).body):
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_import = isinstance(node, (ast.Import, ast.ImportFrom))
        if is_docstring or is_import:
            text = lines[node.lineno - 1 : node.end_lineno]
            is_part = isinstance(node, ast.ImportFrom) and node.level == 1 and node.module in PARTS
            if is_import and not is_part and "__future__" not in text[0]:
                kept.append("\n".join(text))
            del lines[node.lineno - 1 : node.end_lineno]
    body = [line for line in lines if not line.startswith("# cython:")]
    return kept[::-1], "\n".join(body).strip("\n") + "\n"


def _with_numbers(source: str, numbers: Mapping[str, int]) -> str:
    """The source with each of these names replaced by its number."""
    lines = source.split("\n")
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(source).readline))):
        if token.type == tokenize.NAME and token.string in numbers:
            row, begin = token.start
            line = lines[row - 1]
            lines[row - 1] = f"{line[:begin]}{numbers[token.string]}{line[token.end[1] :]}"
    return "\n".join(lines)
