"""Completes help texts that the parser would leave out or cut: `N` for a number, a whole clause per listed command. Pure."""

from __future__ import annotations

import copy
import re
from typing import Any, Final

VALUES: Final = {
    "int": ("N", "whole number"),
    "int range": ("N", "whole number"),
    "float": ("N", "number"),
    "float range": ("N", "number"),
    "str": ("TEXT", "text"),
}
"""By the parser's name of a type: the text behind the option in the help, and the type's name in errors."""


def complete_help(command: Any) -> None:
    """Changes a parser and its subcommands.

    A list of commands shows the help of each up to the first `;` or full stop; the parser itself would cut it at the width
    of the terminal.
    """
    for below in getattr(command, "commands", {}).values():
        complete_help(below)
        below.short_help = _first_clause(below.help or "")
    for parameter in command.params:
        if parameter.type.name in VALUES and not getattr(parameter, "is_flag", False):
            metavar, type_name = VALUES[parameter.type.name]
            if parameter.param_type_name == "option":
                parameter.metavar = parameter.metavar or metavar
            parameter.type = copy.copy(parameter.type)  # the parser shares one object for most types
            parameter.type.name = type_name


def _first_clause(text: str) -> str:
    """The first clause, with a full stop. `;` and `.` count only before a blank or the end."""
    clause = re.split(r"[;.](?=\s|$)", " ".join(text.split()), maxsplit=1)[0]
    return f"{clause}." if clause else ""
