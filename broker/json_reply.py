"""JSON documents as reply payloads."""

from __future__ import annotations

import json
from typing import Any, Final

from ..remoting.commands import JsonReply, Request
from ..remoting.server import Call, RequestLoop

_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


def encode_document(document: Any) -> bytes:
    """The payload of a JsonReply. Half of a surrogate pair, which UTF-8 cannot encode, stays an escape."""
    return _encode(document).encode("utf-8", "backslashreplace")


def reply_json(loop: RequestLoop, call: Call[Request], document: Any) -> None:
    """Answers a call with a document. Loop thread."""
    loop.reply(call, JsonReply(), (encode_document(document),))
