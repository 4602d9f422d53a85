"""As much of YAML as RocketMQ's plain_acl.yml needs: mappings, lists and plain or quoted texts in blocks. Pure.

No anchors, tags, flow collections (but `[]`), documents or texts over several lines: they are refused with their line.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ..errors import InvalidParameter
from ..plain_dataclass import dataclass

TEXT_MAX: Final = 1 << 20  # characters
DEPTH_MAX: Final = 8
_KEY: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*):(?:\s+(.*))?\Z", re.DOTALL)
_REFUSED: Final = ("{", "[", "&", "*&", "!", "|", ">", "%", "@", "`", "? ")


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    indent: int
    text: str


def parse_yaml(text: str) -> Any:
    """A mapping, list or text; what has no value is None. Raises InvalidParameter with the line."""
    if len(text) > TEXT_MAX:
        raise InvalidParameter("file", f"{len(text)} characters", f"at most {TEXT_MAX}")
    lines = []
    for number, raw in enumerate(text.splitlines(), 1):
        if "\t" in raw[: len(raw) - len(raw.lstrip())]:
            raise _wrong(_Line(number, 0, raw), "blanks, no tabs, before a line")
        line = _without_comment(raw)
        if line.strip() and line.strip() != "---":
            lines.append(_Line(number, len(line) - len(line.lstrip(" ")), line.strip()))
    if not lines:
        return None
    value, rest = _block(lines, 0, lines[0].indent, 0)
    if rest < len(lines):
        raise _wrong(lines[rest], "a line with the indent of its neighbours")
    return value


def _block(lines: list[_Line], at: int, indent: int, depth: int) -> tuple[Any, int]:
    """The value of the lines from `at` on that begin at this indent, and the first line behind it."""
    if depth > DEPTH_MAX:
        raise _wrong(lines[at], f"at most {DEPTH_MAX} levels")
    if lines[at].text == "-" or lines[at].text.startswith("- "):
        return _list(lines, at, indent, depth)
    return _mapping(lines, at, indent, depth)


def _list(lines: list[_Line], at: int, indent: int, depth: int) -> tuple[list[Any], int]:
    values: list[Any] = []
    while at < len(lines) and lines[at].indent == indent and (lines[at].text + " ").startswith("- "):
        line = lines[at]
        content = line.text[1:].lstrip()
        if not content:
            value, at = _nested(lines, at + 1, indent + 1, depth)
        elif _KEY.match(content) and content[0] not in "\"'":
            inner = indent + len(line.text) - len(content)
            lines[at] = _Line(line.number, inner, content)  # the mapping begins behind the hyphen
            value, at = _block(lines, at, inner, depth + 1)
        else:
            value, at = _scalar(line, content), at + 1
        values.append(value)
    return values, at


def _mapping(lines: list[_Line], at: int, indent: int, depth: int) -> tuple[dict[str, Any], int]:
    values: dict[str, Any] = {}
    while at < len(lines) and lines[at].indent == indent and not (lines[at].text + " ").startswith("- "):
        line = lines[at]
        found = _KEY.match(line.text)
        if found is None or found[1] in values:
            raise _wrong(line, "a new name, a colon and a value")
        if found[2]:
            values[found[1]], at = _scalar(line, found[2].strip()), at + 1
        else:
            values[found[1]], at = _nested(lines, at + 1, indent, depth)
    return values, at


def _nested(lines: list[_Line], at: int, indent: int, depth: int) -> tuple[Any, int]:
    """What stands below a name: deeper, or a list at its own indent; None if nothing does."""
    if at < len(lines) and (
        lines[at].indent > indent or (lines[at].indent == indent and (lines[at].text + " ").startswith("- "))
    ):
        return _block(lines, at, lines[at].indent, depth + 1)
    return None, at


def _scalar(line: _Line, text: str) -> Any:
    if text[0] in "\"'":
        if len(text) < 2 or text[-1] != text[0] or text[0] in text[1:-1] or "\\" in text:
            raise _wrong(line, "a text in quotes, without quotes or backslashes in it")
        return text[1:-1]
    if text == "[]":
        return []
    if text in ("null", "~"):
        return None
    if text.startswith(_REFUSED):
        raise _wrong(line, "a plain text or one in quotes")
    return text


def _without_comment(line: str) -> str:
    """The line without a comment: `#` at its begin or behind a blank, outside of quotes."""
    quote = ""
    for index, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'" and (index == 0 or line[index - 1] in " -:"):
            quote = character
        elif character == "#" and (index == 0 or line[index - 1] == " "):
            return line[:index].rstrip()
    return line.rstrip()


def _wrong(line: _Line, expected: str) -> InvalidParameter:
    return InvalidParameter(f"line {line.number}", line.text[:80], expected)
