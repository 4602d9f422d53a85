"""Frames of RocketMQ's remoting protocol: bytes from and to requests and replies. Pure.

    length 4 (of what follows) | kind 1, header length 3 | header | body

The kind is how the header is written: 0 = JSON, 1 = binary. An answer is written as its request was: some clients know JSON
only. The binary form has 16 bits for the code, so codes above that travel as JSON.

    code 2 | language 1 | version 2 | opaque 4 | flag 4 | remark length 4, remark | fields length 4, fields
    each field: name length 2, name | value length 4, value
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass, field
from typing import Final

from ...model.errors import RemoteProtocolError
from .codes import LANGUAGES, OUR_VERSION

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
HEADER_BYTES_MAX: Final = 256 * 1024
"""A message's properties are in it: those that are too many are refused by an answer, not by the end of the connection."""
FIELDS_MAX: Final = 512
LENGTH_BYTES: Final = 4
IS_REPLY: Final = 1
IS_ONE_WAY: Final = 2

_JSON: Final = 0
_BINARY: Final = 1
_BINARY_CODE_MAX: Final = 32767
_INT_BITS: Final = 32
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
_ESCAPED_PAIR: Final = re.compile(rb"\\u[dD]")
_PREFIX: Final = struct.Struct(">II")
_BEGIN: Final = struct.Struct(">hBhiii")
_LENGTH: Final = struct.Struct(">i")
_NAME_LENGTH: Final = struct.Struct(">h")


@dataclass(slots=True)
class ClassicFrame:
    """A request, or a reply if `flag` says so. `fields`: RocketMQ's extFields. `is_json`: how its header is written."""

    code: int
    opaque: int
    flag: int = 0
    remark: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    language: str = "JAVA"
    version: int = OUR_VERSION
    is_json: bool = True

    @property
    def is_reply(self) -> bool:
        """It answers a request."""
        return bool(self.flag & IS_REPLY)

    @property
    def is_one_way(self) -> bool:
        """Nobody waits for an answer."""
        return bool(self.flag & IS_ONE_WAY)


def frame_bytes(prefix: bytes | bytearray | memoryview, at: int = 0) -> int:
    """The bytes of the whole frame that begins at `at`, from its first four. Raises RemoteProtocolError."""
    length = int.from_bytes(prefix[at : at + LENGTH_BYTES], "big")
    if not LENGTH_BYTES <= length <= FRAME_BYTES_MAX:
        raise RemoteProtocolError(f"a frame of {length} bytes: expected {LENGTH_BYTES} to {FRAME_BYTES_MAX}")
    return LENGTH_BYTES + length


def decode_frame(data: bytes) -> ClassicFrame:
    """Decodes one whole frame. Raises RemoteProtocolError."""
    if len(data) < 2 * LENGTH_BYTES or frame_bytes(data) != len(data):
        raise RemoteProtocolError(f"a frame of {len(data)} bytes is cut short")
    mark = int.from_bytes(data[4:8], "big")
    kind, header_bytes = mark >> 24, mark & 0xFFFFFF
    end = 8 + header_bytes
    if header_bytes > HEADER_BYTES_MAX or end > len(data):
        raise RemoteProtocolError(f"a header of {header_bytes} bytes in a frame of {len(data)}")
    if kind == _JSON:
        frame = _from_json(data[8:end])
    elif kind == _BINARY:
        frame = _from_binary(data[8:end])
    else:
        raise RemoteProtocolError(f"a header of the unknown kind {kind}")
    frame.body = data[end:]
    return frame


def encode_frame(frame: ClassicFrame) -> bytes:
    """The bytes of a frame. Raises RemoteProtocolError where it is larger than clients take."""
    is_json = frame.is_json or not -_BINARY_CODE_MAX - 1 <= frame.code <= _BINARY_CODE_MAX
    header = _to_json(frame) if is_json else _to_binary(frame)
    length = LENGTH_BYTES + len(header) + len(frame.body)
    if length > FRAME_BYTES_MAX:
        raise RemoteProtocolError(f"a frame of {length} bytes: expected at most {FRAME_BYTES_MAX}")
    kind = _JSON if is_json else _BINARY
    return b"".join((_PREFIX.pack(length, kind << 24 | len(header)), header, frame.body))


# ---- JSON


def _to_json(frame: ClassicFrame) -> bytes:
    document = {
        "code": frame.code,
        "extFields": frame.fields,
        "flag": frame.flag,
        "language": frame.language,
        "opaque": frame.opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": frame.version,
    }
    if frame.remark:
        document["remark"] = frame.remark
    return _ENCODER.encode(document).encode("utf-8", "replace")


def _from_json(header: bytes) -> ClassicFrame:
    try:
        document = json.loads(header.decode())  # of bytes it would take halves of surrogate pairs
        check_pairs(header, document)
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError("a frame's header is no JSON") from error
    if not isinstance(document, dict):
        raise RemoteProtocolError("a frame's header is no JSON object")
    given = document.get("extFields")
    given = {} if given is None else given
    if not isinstance(given, dict) or len(given) > FIELDS_MAX:
        raise RemoteProtocolError(f"extFields: expected an object of at most {FIELDS_MAX} fields")
    language = document.get("language")
    remark = document.get("remark")
    return ClassicFrame(
        _int(document, "code"),
        _int(document, "opaque"),
        _int(document, "flag"),
        remark if isinstance(remark, str) else "",
        {
            name: value if type(value) is str else _text(name, value)
            for name, value in given.items()
            if value is not None
        },
        language=_language(language),
        version=_int(document, "version"),
    )


def check_pairs(encoded: bytes, document: object) -> None:
    """Raises ValueError if a decoded document has half of a surrogate pair in a text, which UTF-8 cannot carry on."""
    if _ESCAPED_PAIR.search(encoded) is not None:
        json.dumps(document, ensure_ascii=False).encode()


def _language(value: object) -> str:
    """An unknown one counts as OTHER."""
    if type(value) is int and 0 <= value < len(LANGUAGES):
        return LANGUAGES[value]
    return value if isinstance(value, str) and value in LANGUAGES else "OTHER"


def _int(document: dict[str, object], name: str) -> int:
    value = document.get(name, 0)
    if type(value) is not int or not -(1 << (_INT_BITS - 1)) <= value < 1 << (_INT_BITS - 1):
        raise RemoteProtocolError(f"{name}: expected a number of {_INT_BITS} bits")
    return value


def _text(name: str, value: object) -> str:
    """Some clients write numbers as numbers."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise RemoteProtocolError(f"extFields.{name[:64]}: expected a text")


# ---- binary


def _to_binary(frame: ClassicFrame) -> bytes:
    remark = frame.remark.encode("utf-8", "replace")
    parts = []
    for name, value in frame.fields.items():
        encoded, text = name.encode("utf-8", "replace"), value.encode("utf-8", "replace")
        parts += [_NAME_LENGTH.pack(len(encoded)), encoded, _LENGTH.pack(len(text)), text]
    fields = b"".join(parts)
    begin = _BEGIN.pack(
        frame.code, LANGUAGES.index(frame.language), frame.version, frame.opaque, frame.flag, len(remark)
    )
    return b"".join((begin, remark, _LENGTH.pack(len(fields)), fields))


def _from_binary(header: bytes) -> ClassicFrame:
    """This and `_fields` are on the way of each send: no call for a field."""
    try:
        code, language, version, opaque, flag, remark_bytes = _BEGIN.unpack_from(header)
        at = _BEGIN.size + remark_bytes
        if remark_bytes < 0 or at > len(header):
            raise RemoteProtocolError(f"a remark of {remark_bytes} bytes in a header of {len(header)}")
        (fields_bytes,) = _LENGTH.unpack_from(header, at)
        if fields_bytes != len(header) - at - _LENGTH.size:
            raise RemoteProtocolError(f"{fields_bytes} bytes of fields in a header of {len(header)}")
        remark = header[_BEGIN.size : at].decode()
        fields = _fields(header, at + _LENGTH.size)
    except (struct.error, IndexError) as error:
        raise RemoteProtocolError("a frame's binary header is cut short") from error
    except UnicodeDecodeError as error:
        raise RemoteProtocolError("a text in a frame's header is not UTF-8") from error
    named = LANGUAGES[language] if language < len(LANGUAGES) else "OTHER"
    return ClassicFrame(code, opaque, flag, remark, fields, language=named, version=version, is_json=False)


def _fields(header: bytes, at: int) -> dict[str, str]:
    """The fields from `at` to the header's end. Raises RemoteProtocolError, struct.error, IndexError, UnicodeDecodeError."""
    fields: dict[str, str] = {}
    size, length_of = len(header), _LENGTH.unpack_from
    while at < size:
        name_at = at + _NAME_LENGTH.size
        value_at = name_at + (header[at] << 8 | header[at + 1])
        (value_bytes,) = length_of(header, value_at)
        name = header[name_at:value_at].decode()
        value_at += _LENGTH.size
        at = value_at + value_bytes
        if value_bytes < 0 or at > size:
            raise RemoteProtocolError(f"a field of {value_bytes} bytes where {size - value_at} are left")
        fields[name] = header[value_at:at].decode()
    if len(fields) > FIELDS_MAX:
        raise RemoteProtocolError(f"{len(fields)} fields: expected at most {FIELDS_MAX}")
    return fields
