"""The report of an examination: what was examined, and what was found there. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ...model.examination.finding import Finding, Severity, finding_of, worst
from ...model.examination.machine_rules import judge_clock
from ...model.plain_dataclass import dataclass

UNREADABLE: Final = Finding(
    Severity.PROBLEM, "examination", "its answer cannot be read", "are these versions of ZenitMQ far apart?"
)


@dataclass(frozen=True, slots=True)
class Examined:
    """`what`: this machine, a configuration, or a server, by role and address. `version`: "" where it is not known."""

    what: str
    findings: tuple[Finding, ...]
    version: str = ""

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "what": self.what,
            "version": self.version,
            "severity": worst(self.findings).value,
            "findings": [one.document() for one in self.findings],
        }


def examined_server(what: str, document: Mapping[str, Any]) -> Examined:
    """The answer of a server, and how its clock differs from ours."""
    try:
        findings = tuple(finding_of(one) for one in document["findings"])
        clock = judge_clock(float(document["clock_ahead_ms"]), float(document["clock_uncertainty_ms"]))
        return Examined(what, (*findings, clock), str(document["version"]))
    except (KeyError, TypeError, ValueError):
        return Examined(what, (UNREADABLE,))


def judged_versions(versions: Sequence[str]) -> Finding:
    """Whether the versions of all servers work together: one minor version apart they do, as in an upgrade."""
    different = sorted(set(versions), key=_numbers)
    if not different:
        return Finding(Severity.NOTE, "versions", "no server told its own")
    if len(different) == 1:
        return Finding(Severity.OK, "versions", f"{different[0]} everywhere")
    listed = ", ".join(f"{version} at {versions.count(version)}" for version in different)
    if not _are_apart(different):
        return Finding(Severity.NOTE, "versions", listed, "finish the upgrade")
    remedy = "upgrade by one minor version at a time: these were not tested together"
    return Finding(Severity.PROBLEM, "versions", listed, remedy)


def judged_target(versions: Sequence[str], target: str) -> str:
    """Why servers of these versions cannot be upgraded to `target` one after another; "" if they can, or without a target."""
    running = sorted(set(versions), key=_numbers)
    if not target or not running or not _are_apart(sorted({*running, target}, key=_numbers)):
        return ""
    return f"{target} is more than one minor version away from {running[0]}: upgrade by one minor version at a time"


def _are_apart(versions: Sequence[str]) -> bool:
    """Whether the first and the last one are more than one minor version apart. `versions`: in order."""
    low, high = _numbers(versions[0]), _numbers(versions[-1])
    return low[0] != high[0] or high[1] - low[1] > 1


def _numbers(version: str) -> tuple[int, int]:
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return (int(major) if major.isdecimal() else 0, int(minor) if minor.isdecimal() else 0)


def report_lines(examined: Iterable[Examined], *, with_ok: bool) -> list[str]:
    """The report as text; `with_ok`: also what is in order. A server's signs that a terminal would obey become blanks."""
    lines = []
    for one in examined:
        shown = [found for found in one.findings if with_ok or found.severity is not Severity.OK]
        version = f" (zenit {one.version})" if one.version else ""
        lines.append(f"{one.what}{version}" + ("" if shown else ": all is well"))
        for found in shown:
            lines.append(f"  {found.severity.value:<8} {found.check}: {found.text}")
            if found.remedy:
                lines.append(f"           -> {found.remedy}")
    return ["".join(sign if sign.isprintable() else " " for sign in line) for line in lines]
