"""One finding of an examination, and documents of them. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any

from ..plain_dataclass import dataclass


class Severity(enum.Enum):
    """How much a finding matters, the least first."""

    OK = "ok"
    NOTE = "note"
    """It works, but not as well as it could."""
    WARNING = "warning"
    """It will fail one day: under load, at a restart, in a failover."""
    PROBLEM = "problem"
    """It does not work."""

    @property
    def rank(self) -> int:
        """The higher, the worse."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """`check`: what was looked at, a word or two. `remedy`: what to do about it; "" where all is well."""

    severity: Severity
    check: str
    text: str
    remedy: str = ""

    def document(self) -> dict[str, str]:
        """As JSON has it."""
        return {"severity": self.severity.value, "check": self.check, "text": self.text, "remedy": self.remedy}

    def line(self) -> str:
        """One line for a log."""
        return f"{self.check}: {self.text}" + (f"; {self.remedy}" if self.remedy else "")


def finding_of(document: Mapping[str, Any]) -> Finding:
    """The finding of a document that came from a server. Raises ValueError, KeyError, TypeError if it is none."""
    severity, check, text, remedy = (str(document[key]) for key in ("severity", "check", "text", "remedy"))
    return Finding(Severity(severity), check, text, remedy)


def worst(findings: Iterable[Finding]) -> Severity:
    """The worst of all; OK if there are none."""
    return max((one.severity for one in findings), key=lambda severity: severity.rank, default=Severity.OK)
