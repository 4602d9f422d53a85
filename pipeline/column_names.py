"""The names of a row's columns, in order. `schema` has their types. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..model.errors import InvalidParameter

BODY: Final = "body"
PROPERTIES: Final = "properties"
SYS_FLAG: Final = "sysFlag"
"""Not a column of a row; read beside the columns when the sink checks what it wrote."""

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
_AT_LEAST_ONE: Final = f"at least one of {', '.join(COLUMN_NAMES)}"


def column_names(name: str, text: str) -> tuple[str, ...]:
    """The columns of a comma-separated list, in the order of the table. As in Spark, case does not matter.

    `name`: the option, for the error. Raises InvalidParameter for an unknown column, and if there is none.
    """
    given = [part.strip() for part in text.split(",") if part.strip()]
    for each in given:
        if each.lower() not in _BY_LOWER_CASE:
            raise InvalidParameter(name, each, f"names out of {', '.join(COLUMN_NAMES)}")
    if not given:
        raise InvalidParameter(name, text, _AT_LEAST_ONE)
    wanted = {_BY_LOWER_CASE[each.lower()] for each in given}
    return tuple(column for column in COLUMN_NAMES if column in wanted)


def remaining_columns(columns: Sequence[str], *, include_body: bool, include_properties: bool) -> tuple[str, ...]:
    """These columns without the unwanted ones. Raises InvalidParameter if none is left."""
    unwanted = {BODY: not include_body, PROPERTIES: not include_properties}
    remaining = tuple(column for column in columns if not unwanted.get(column))
    if not remaining:
        raise InvalidParameter("columns", ",".join(columns), _AT_LEAST_ONE)
    return remaining
