"""What servers answer as JSON. Pure."""

from __future__ import annotations

import json
from typing import Any

from ...model.errors import RemoteProtocolError

Document = dict[str, Any]


def document_of(payload: bytes) -> Document:
    """The JSON object of an answer. Raises RemoteProtocolError."""
    try:
        document: Any = json.loads(payload)
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deeply
        raise RemoteProtocolError("a document is not JSON") from error
    if not isinstance(document, dict):
        raise RemoteProtocolError("a document is not a JSON object")
    return document
