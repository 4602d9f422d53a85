"""The meaning of a data frame's columns for the sink, checked when a write is planned. Pure.

Names are those of the source, so that rows of a topic can be written to another; `value` and `key` are Kafka's names for
`body` and `messageGroup`. A column that the sink does not know is refused, so that it is not lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ...model.errors import UnwritableColumn

BODY: Final = "body"
TOPIC: Final = "topic"
DELIVER_AT: Final = "deliverTimestamp"
ALIASES: Final = {"value": BODY, "key": "messageGroup"}

TYPES: Final[dict[str, tuple[str, ...]]] = {
    BODY: ("binary", "string"),
    TOPIC: ("string",),
    "keys": ("string", "array<string>"),
    "tags": ("string",),
    "messageGroup": ("string", "binary"),
    "properties": ("map<string,string>",),
    DELIVER_AT: ("timestamp",),
    "flag": ("int", "smallint", "tinyint"),
}
"""Spark's simple names of the types that each column may have."""


@dataclass(frozen=True, slots=True)
class WriteColumns:
    """The index of each column; None: absent. `names`: the data frame's names, for errors."""

    names: tuple[str, ...]
    body: int
    topic: int | None = None
    keys: int | None = None
    tags: int | None = None
    message_group: int | None = None
    properties: int | None = None
    deliver_at: int | None = None
    flag: int | None = None


def plan_columns(fields: Iterable[tuple[str, str]], *, has_topic: bool, is_dedup: bool) -> WriteColumns:
    """`fields`: (name, Spark's simple type name). `has_topic`: an option gives the topic of all rows.

    Raises UnwritableColumn, which names the column.
    """
    names: list[str] = []
    at: dict[str, int] = {}
    for index, (name, kind) in enumerate(fields):
        names.append(name)
        meant = ALIASES.get(name, name)
        types = TYPES.get(meant)
        if types is None:
            known = ", ".join([*TYPES, *ALIASES])
            raise UnwritableColumn(name, f"select only columns that can be written ({known}), or drop it")
        if kind not in types:
            raise UnwritableColumn(name, f"it is of type {kind}, not of {' or '.join(types)}: cast it")
        if meant in at:
            raise UnwritableColumn(name, f"column {names[at[meant]]!r} has the same meaning; keep one of them")
        at[meant] = index
    if BODY not in at:
        raise UnwritableColumn(BODY, "the data frame has neither body nor value; name the column to send body")
    if TOPIC not in at and not has_topic:
        raise UnwritableColumn(TOPIC, "the data frame has no such column, and the option topic is not given")
    if is_dedup and DELIVER_AT in at:
        raise UnwritableColumn(
            DELIVER_AT, "delivery=dedup cannot delay rows; drop the column, or use delivery=at-least-once"
        )
    return WriteColumns(
        tuple(names),
        at[BODY],
        topic=None if has_topic else at[TOPIC],
        keys=at.get("keys"),
        tags=at.get("tags"),
        message_group=at.get("messageGroup"),
        properties=at.get("properties"),
        deliver_at=at.get(DELIVER_AT),
        flag=at.get("flag"),
    )
