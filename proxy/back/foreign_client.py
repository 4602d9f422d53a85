"""What a client of a proxy says of itself. Pure."""

from __future__ import annotations

from ...model.plain_dataclass import dataclass

ForeignConsumer = tuple[str, str, tuple[tuple[str, str, str], ...]]
"""(group, model, ((topic, kind, expression), ...))."""


@dataclass(frozen=True, slots=True)
class ForeignClient:
    """What a client says of itself. `language`, `version`, `host`: of its library and its machine."""

    client_id: str
    language: str = ""
    version: str = ""
    host: str = ""
    producer_groups: tuple[str, ...] = ()
    consumers: tuple[ForeignConsumer, ...] = ()
