"""Finds the cause in Spark's long errors: our own error in a Python worker's traceback, or the first useful line. Pure.

An error raised in a worker arrives as text, inside a Java exception, inside a Python one.
"""

from __future__ import annotations

import re
from typing import Final

from ...model.errors import JobFailed, ZenitError

REASON_CHARACTERS_MAX: Final = 400

_OURS: Final = re.compile(r"(?:zenitmq\.)?model\.errors\.\w+\.(\w+): ([^\n]*)")
_RAISED: Final = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception)): ([^\n]+)", re.MULTILINE)
_PREFACE: Final = re.compile(r"^\[[A-Z_.]+\] (?:Query \[[^\]]*\] terminated with exception: )?")
_SQLSTATE: Final = re.compile(r" SQLSTATE: \w+\s*$")
_WRAPPERS: Final = frozenset(
    {"PythonException", "Py4JJavaError", "Py4JException", "SparkException", "StreamingQueryException"}
)


def failure(job: str, error: BaseException, log_path: str) -> ZenitError:
    """The error for the user: the given one if it is ours, else JobFailed with its reason in one line."""
    if isinstance(error, ZenitError):
        return error
    return JobFailed(job, reason_of(str(error)) or type(error).__name__, log_path)


def reason_of(text: str) -> str:
    """The most useful line of an error's text: our error, else the innermost that is no wrapper, else the first."""
    ours = _OURS.findall(text)
    if ours:
        return _short(ours[-1][1])
    raised = [(name, said) for name, said in _RAISED.findall(text) if name not in _WRAPPERS]
    if raised:
        name, said = raised[-1]
        return _short(f"{name}: {said}")
    first = next((line for line in text.splitlines() if line.strip()), "")
    return _short(_PREFACE.sub("", _SQLSTATE.sub("", first)))


def _short(line: str) -> str:
    line = " ".join(line.split())
    return line if len(line) <= REASON_CHARACTERS_MAX else line[: REASON_CHARACTERS_MAX - 1] + "…"
