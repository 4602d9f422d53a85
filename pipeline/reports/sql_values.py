"""Converts values of a query's result to JSON. Pure."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any


def plain(value: object) -> Any:
    """Bytes as text if they are valid text, else in base64; times in UTC; infinite and NaN as text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes() | bytearray():
            return _text(bytes(value))
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="milliseconds")
        case date():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Decimal():
            return str(value)
        case Mapping():
            return {str(plain(key)): plain(each) for key, each in value.items()}
        case tuple() if hasattr(value, "asDict"):  # Spark's struct
            return {name: plain(each) for name, each in value.asDict().items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case _:
            return str(value)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()
