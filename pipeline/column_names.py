"""The names of the columns that a row of a topic has, in their order. Their types: schema. Pure."""

from __future__ import annotations

from typing import Final

from ..model.errors import InvalidParameter

BODY: Final = "body"
PROPERTIES: Final = "properties"
SYS_FLAG: Final = "sysFlag"
"""No column of a row, but read beside them where the sink looks at what it wrote."""

COLUMN_NAMES: Final = (
    "topic",
    "broker",
    "queueId",
    "queueOffset",
    "messageId",
    "keys",
    "tags",
    "messageGroup",
    BODY,
    PROPERTIES,
    "bornTimestamp",
    "storeTimestamp",
    "deliverTimestamp",
    "reconsumeTimes",
    "bodyCrc",
    "traceparent",
    "flag",
)

_BY_LOWER_CASE: Final = {name.lower(): name for name in COLUMN_NAMES}


def chosen_columns(text: str | None, *, include_body: bool = True, include_properties: bool = True) -> tuple[str, ...]:
    """The columns of a comma-separated list in the order of the table, or all of them; without those not wanted.

    As in Spark, case does not matter. Raises InvalidParameter for a name that is none, and where nothing is left.
    """
    wanted = set(COLUMN_NAMES)
    if text is not None:
        names = [part.strip() for part in text.split(",") if part.strip()]
        for name in names:
            if name.lower() not in _BY_LOWER_CASE:
                raise InvalidParameter("columns", name, f"names out of {', '.join(COLUMN_NAMES)}")
        wanted = {_BY_LOWER_CASE[name.lower()] for name in names}
    if not include_body:
        wanted.discard(BODY)
    if not include_properties:
        wanted.discard(PROPERTIES)
    if not wanted:
        raise InvalidParameter("columns", text, f"at least one of {', '.join(COLUMN_NAMES)}")
    return tuple(name for name in COLUMN_NAMES if name in wanted)
