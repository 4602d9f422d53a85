"""The settings of a server's log. Pure."""

from __future__ import annotations

from ..config import check_settings, setting
from ..plain_dataclass import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class LogConfig:
    """The table [log] of every role."""

    format: str = setting(
        "text",
        "lines on stderr; json: one document a line, with the names of docs/events.md, for what collects logs",
        choices=("text", "json"),
    )
    level: str = setting(
        "info",
        "the least that is logged; debug costs throughput. Events are kept whatever this says; `ZENIT_LOG` goes before it",
        choices=("debug", "info", "warning", "error"),
        online=True,
    )

    def __post_init__(self) -> None:
        check_settings(self)
