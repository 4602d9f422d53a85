"""The header frame: one msgpack array that describes a message; bulk bytes travel in separate frames.

    [code, language, version, opaque, flag, remark, fields, timeout_ms]
    [code, language, version, opaque, flag, remark, fields, timeout_ms, cluster_id]
    [code, language, version, opaque, flag, remark, fields, timeout_ms, cluster_id, delegation]

RocketMQ's header, by position: `code` of the request, or 0 / an error's code in a reply; `language` 3 = Python;
`opaque` is chosen by the sender and echoed; `flag` bit 0 = reply, bit 1 = one way; `remark` an error's text;
`fields` those of the command's class in order, or an error's facts; `timeout_ms` how long the sender waits;
`cluster_id` the id of the cluster that a request is meant for, left out where the sender knows none yet; `delegation` by
which a gateway acts for a user (model/security/delegation).

Pure. A frame comes from a stranger: its size is bounded before it is unpacked, its claimed lengths are proved honest
before anything is allocated for them, and each field's type is checked against the class. How to check a class is
worked out once, at import. Wrong bytes are a RemoteProtocolError, never anything else.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import re
import typing
from collections.abc import Callable
from typing import Any, Final

import msgpack

from ..model.cluster_id import CLUSTER_ID_LENGTH_MAX
from ..model.errors import (
    LocalProtocolError,
    MessageTooLarge,
    RemoteProtocolError,
    UnknownRequest,
    VersionNotSupported,
    ZenitError,
    error_classes,
    error_from_wire,
)
from ..model.security.delegation import LENGTH_MAX as DELEGATION_LENGTH_MAX
from .commands import REQUESTS, Reply, Request
from .options import HEADER_BYTES_MAX

LANGUAGE_PYTHON: Final = 3
PROTOCOL_VERSION: Final = 1
FLAG_REPLY: Final = 1
FLAG_ONEWAY: Final = 2
REPLY_OK: Final = 0

SMALL_BYTES: Final = 512  # a malicious frame this small makes msgpack allocate 0.7 MB at worst
INT64_MAX: Final = (1 << 63) - 1
FACT_LENGTH_MAX: Final = 1024  # characters of an error's fact or remark, which may quote foreign data

Incoming = tuple[Request | ZenitError, int, bool, int, str, str]
"""(request, opaque, oneway, timeout_ms, cluster id or "", delegation or ""); an error in place of the request if its fields are
wrong: answer with it.
"""

Header = tuple[int, int, int, int, Any, Any, int, bool, str, str]
"""(code, version, opaque, flag, remark, fields, timeout_ms, whether integers may need more than 63 bits, cluster id,
delegation)."""

_WITH_CLUSTER: Final = 9  # parts of a header with a cluster id
_WITH_DELEGATION: Final = 10
_NUMBERS: Final = (int,) * 5  # the types of code, version, opaque, flag, timeout_ms
_WIDE: Final = re.compile(rb"\xcf[\x80-\xff]").search  # the begin of a 64-bit integer (or of bytes that look like one)
_Check = Callable[[Any], bool]
_MALFORMED: Final = (ValueError, TypeError, OverflowError, MemoryError)  # what unpacking can raise

# The begin of every send of a Python client: an array of nine, the code, language and version. Its opaque follows.
_SEND_BEGIN: Final = bytes.fromhex("99cd0140") + bytes((LANGUAGE_PYTHON, PROTOCOL_VERSION))
_OPAQUE_AT: Final = len(_SEND_BEGIN)
_OPAQUE_BYTES: Final = {0xCC: 1, 0xCD: 2, 0xCE: 4}  # behind the first byte of a larger integer
_SENDS_MAX: Final = 4096
_sends: dict[bytes, tuple[Request | ZenitError, bool, int, str]] = {}
"""Bytes behind the opaque -> (request, oneway, timeout_ms, cluster id)."""

# One packer for the process: `pack` holds the interpreter lock throughout and calls no Python code for our types.
_pack: Final = msgpack.Packer().pack


class _Shape:
    """How a command's fields are read from an instance, and how a list of them is checked."""

    __slots__ = ("cls", "count_min", "defaults", "nested", "take", "types")

    def __init__(self, cls: type[Any]) -> None:
        hints = typing.get_type_hints(cls)
        fields = dataclasses.fields(cls)
        names = [field.name for field in fields]
        self.cls = cls
        self.take = _taker(names)
        self.types = [_plain_type(hints[name]) for name in names]
        self.count_min = sum(1 for field in fields if field.default is dataclasses.MISSING)
        self.nested = [(index, _checker(hints[name])) for index, name in enumerate(names) if self.types[index] is tuple]
        self.defaults = tuple(field.default for field in fields)

    def build(self, fields: tuple[Any, ...], *, wide: bool) -> Any:
        """Creates an instance; raises RemoteProtocolError. Missing fields get their defaults, additional ones are ignored.

        `wide`: the frame has integers that may not fit into 64 bits with a sign.
        """
        if type(fields) is not tuple:
            raise RemoteProtocolError(f"{self.cls.__name__}: its fields are not a list")
        if len(fields) != len(self.types):
            fields = self._completed(fields)
        if [*map(type, fields)] != self.types:
            raise RemoteProtocolError(f"{self.cls.__name__}: a field of a wrong type")
        for index, check in self.nested:
            if fields[index] and not check(fields[index]):
                raise RemoteProtocolError(f"{self.cls.__name__}: field {index} has elements of a wrong number or type")
        if wide and not _fits_int64(fields):
            raise RemoteProtocolError(f"{self.cls.__name__}: an integer of more than 63 bits")
        return self.cls(*fields)

    def _completed(self, fields: tuple[Any, ...]) -> tuple[Any, ...]:
        """Exactly the fields that we know: an older peer's list is shorter, a newer one's longer."""
        if len(fields) < self.count_min:
            raise RemoteProtocolError(f"{self.cls.__name__}: {len(fields)} fields, at least {self.count_min} expected")
        return (fields + self.defaults[len(fields) :])[: len(self.types)]


def _taker(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda _: ()
    if len(names) == 1:
        only = operator.attrgetter(names[0])
        return lambda instance: (only(instance),)
    return typing.cast("Callable[[Any], tuple[Any, ...]]", operator.attrgetter(*names))


def _plain_type(hint: Any) -> type:
    plain = typing.get_origin(hint) or hint
    if plain not in (int, str, bool, bytes, tuple):
        raise TypeError(f"{hint} cannot travel in a header")
    return typing.cast("type", plain)


def _checker(hint: Any) -> _Check:
    """A test of a nested tuple: `tuple[X, ...]` or `tuple[X, Y, Z]`."""
    arguments = typing.get_args(hint)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return _repeated_checker(arguments[0])
    types = tuple(_plain_type(argument) for argument in arguments)
    nested = [(index, _checker(argument)) for index, argument in enumerate(arguments) if types[index] is tuple]

    def check(value: Any) -> bool:
        return tuple(map(type, value)) == types and all(test(value[index]) for index, test in nested)

    return check


def _repeated_checker(element: Any) -> _Check:
    plain = {_plain_type(element)}
    if plain != {tuple}:
        return lambda value: plain.issuperset(map(type, value))
    inner = _checker(element)
    return lambda value: plain.issuperset(map(type, value)) and all(map(inner, value))


def _fits_int64(value: tuple[Any, ...]) -> bool:
    for part in value:
        kind = type(part)
        if (kind is int and part > INT64_MAX) or (kind is tuple and part and not _fits_int64(part)):
            return False
    return True


class _Shapes(dict[type[Any], _Shape]):
    """The shapes of requests and replies, each made at its first use: a process needs only some, and starts sooner."""

    def __missing__(self, cls: type[Any]) -> _Shape:
        shape = self[cls] = _Shape(cls)
        return shape


_SHAPES: Final = _Shapes()


_ERRORS: Final = error_classes()


@functools.cache
def _fact_types(code: int) -> tuple[type, ...]:
    """The types of the facts of a known error code."""
    hints = typing.get_type_hints(_ERRORS[code].__init__)
    return tuple(hint for name, hint in hints.items() if name != "return")


# ---- encoding


def encode_request(
    request: Request, opaque: int, *, timeout_ms: int, oneway: bool = False, cluster_id: str = "", delegation: str = ""
) -> bytes:
    """The header frame of a request. Raises LocalProtocolError (a field of a wrong type), MessageTooLarge."""
    flag = FLAG_ONEWAY if oneway else 0
    fields = _SHAPES[type(request)].take(request)
    if delegation:
        named = (cluster_id, delegation)
        return _packed(
            (request.code, LANGUAGE_PYTHON, PROTOCOL_VERSION, opaque, flag, None, fields, timeout_ms, *named)
        )
    if cluster_id:
        return _packed(
            (request.code, LANGUAGE_PYTHON, PROTOCOL_VERSION, opaque, flag, None, fields, timeout_ms, cluster_id)
        )
    return _packed((request.code, LANGUAGE_PYTHON, PROTOCOL_VERSION, opaque, flag, None, fields, timeout_ms))


def encode_reply(reply: Reply, opaque: int) -> bytes:
    """The header frame of a reply. Raises LocalProtocolError (a field of a wrong type), MessageTooLarge."""
    fields = _SHAPES[type(reply)].take(reply)
    return _packed((REPLY_OK, LANGUAGE_PYTHON, PROTOCOL_VERSION, opaque, FLAG_REPLY, None, fields, 0))


def encode_error(error: ZenitError, opaque: int) -> bytes:
    """The header frame of a reply that is an error: its code, its facts, and its text as the remark."""
    facts = tuple(fact if type(fact) is int else str(fact)[:FACT_LENGTH_MAX] for fact in error.args)
    remark = str(error)[:FACT_LENGTH_MAX]
    try:
        return _packed((error.code, LANGUAGE_PYTHON, PROTOCOL_VERSION, opaque, FLAG_REPLY, remark, facts, 0))
    except LocalProtocolError:  # text that UTF-8 cannot encode, an integer of more than 64 bits
        plain = ascii(remark)[:FACT_LENGTH_MAX]
        return _packed((error.code, LANGUAGE_PYTHON, PROTOCOL_VERSION, opaque, FLAG_REPLY, plain, (), 0))


def _packed(header: tuple[Any, ...]) -> bytes:
    try:
        frame: bytes = _pack(header)
    except (TypeError, ValueError, OverflowError) as error:
        raise LocalProtocolError(f"a field cannot travel: {error}") from error
    if len(frame) > HEADER_BYTES_MAX:
        raise MessageTooLarge("header", len(frame), HEADER_BYTES_MAX)
    return frame


# ---- decoding


def decode_request(frame: bytes) -> Incoming:
    """Decodes a request frame. Raises RemoteProtocolError if not even its opaque is readable (see `peek_opaque`).

    A producer's sends to one queue differ only in their opaque, so what follows it is decoded once: that saves a tenth of
    the cost of sending one message.
    """
    if frame.startswith(_SEND_BEGIN) and _OPAQUE_AT < len(frame) <= SMALL_BYTES:
        opaque = frame[_OPAQUE_AT]
        end = _OPAQUE_AT + 1
        if opaque >= 0x80:
            end += _OPAQUE_BYTES.get(opaque, SMALL_BYTES)
            opaque = int.from_bytes(frame[_OPAQUE_AT + 1 : end], "big")
        known = _sends.get(frame[end:])
        if known is not None:
            request, oneway, timeout_ms, cluster_id = known
            return request, opaque, oneway, timeout_ms, cluster_id, ""
        incoming = _decode(frame)
        if end < len(frame) and not isinstance(incoming[0], ZenitError):
            if len(_sends) >= _SENDS_MAX:
                _sends.clear()
            _sends[frame[end:]] = incoming[0], incoming[2], incoming[3], incoming[4]
        return incoming
    return _decode(frame)


def _decode(frame: bytes) -> Incoming:
    code, version, opaque, flag, _, fields, timeout_ms, wide, cluster_id, delegation = open_header(frame)
    request_class = REQUESTS.get(code)
    request: Request | ZenitError
    if request_class is None or version != PROTOCOL_VERSION or flag & FLAG_REPLY:
        request = _refusal(code, version, flag)
    else:
        try:
            request = _SHAPES[request_class].build(fields, wide=wide)
        except RemoteProtocolError as error:
            request = error
    return request, opaque, bool(flag & FLAG_ONEWAY), timeout_ms, cluster_id, delegation


def _refusal(code: int, version: int, flag: int) -> ZenitError:
    """Why a frame with these parts is not a request."""
    if version != PROTOCOL_VERSION:
        return VersionNotSupported(version, PROTOCOL_VERSION)
    return RemoteProtocolError("a reply where a request belongs") if flag & FLAG_REPLY else UnknownRequest(code)


def is_request(header: Header) -> bool:
    """True for a request; a server may send one to its client."""
    return not header[3] & FLAG_REPLY


def opaque_of(header: Header) -> int:
    """The number of the request that is answered."""
    return header[2]


def reply_of(header: Header, reply_class: type[Reply]) -> Reply | ZenitError:
    """The reply, or the error it carries as a value. Raises RemoteProtocolError."""
    code, version, _, flag, remark, fields, _, wide, _, _ = header
    if not flag & FLAG_REPLY:
        raise RemoteProtocolError("a request where a reply belongs")
    if code != REPLY_OK:
        return _error_of(code, fields, remark)
    if version != PROTOCOL_VERSION:
        return VersionNotSupported(version, PROTOCOL_VERSION)
    reply: Reply = _SHAPES[reply_class].build(fields, wide=wide)
    return reply


def decode_reply(frame: bytes, reply_class: type[Reply]) -> tuple[int, Reply | ZenitError]:
    """(opaque, the reply, or the error it carries as a value). Raises RemoteProtocolError."""
    header = open_header(frame)
    return header[2], reply_of(header, reply_class)


def peek_opaque(frame: bytes) -> int:
    """The opaque of a frame that cannot be decoded, so that the error reaches its sender; 0 if it is not readable."""
    unpacker = msgpack.Unpacker(max_buffer_size=64)
    unpacker.feed(frame[:64])
    try:
        unpacker.read_array_header()
        for _ in range(3):
            unpacker.skip()
        opaque = unpacker.unpack()
    except (*_MALFORMED, msgpack.UnpackException):
        return 0
    return opaque if type(opaque) is int and 0 <= opaque <= INT64_MAX else 0


def open_header(frame: bytes) -> Header:
    """The parts of a frame, with its integers checked, for `is_request` and `reply_of`. Raises RemoteProtocolError."""
    if len(frame) > SMALL_BYTES:
        _prove_honest(frame)
    cluster_id = delegation = ""
    try:
        parts = msgpack.unpackb(frame, use_list=False)
        if len(parts) == _WITH_CLUSTER:
            code, _, version, opaque, flag, remark, fields, timeout_ms, cluster_id = parts
        elif len(parts) == _WITH_DELEGATION:
            code, _, version, opaque, flag, remark, fields, timeout_ms, cluster_id, delegation = parts
        else:
            code, _, version, opaque, flag, remark, fields, timeout_ms = parts
    except _MALFORMED as error:
        raise RemoteProtocolError(f"a header that cannot be unpacked ({type(error).__name__})") from error
    if type(cluster_id) is not str or len(cluster_id) > CLUSTER_ID_LENGTH_MAX:
        raise RemoteProtocolError("a header whose ninth part is no cluster's id")
    if type(delegation) is not str or len(delegation) > DELEGATION_LENGTH_MAX:
        raise RemoteProtocolError("a header whose tenth part is no delegation")
    if (type(code), type(version), type(opaque), type(flag), type(timeout_ms)) != _NUMBERS or not (
        0 <= opaque <= INT64_MAX
    ):
        raise RemoteProtocolError("a header whose numbers are not integers")
    wide = 0xCF in frame and _WIDE(frame) is not None
    return code, version, opaque, flag, remark, fields, timeout_ms, wide, cluster_id, delegation


def _prove_honest(frame: bytes) -> None:
    """Walks the frame without allocating: afterwards every claimed length is known to be true.

    Unpacking alone allocates what each of up to a thousand nested arrays claims, before it reads the elements.
    """
    if len(frame) > HEADER_BYTES_MAX:
        raise RemoteProtocolError(f"a header of {len(frame)} bytes is over the limit of {HEADER_BYTES_MAX}")
    unpacker = msgpack.Unpacker(max_buffer_size=len(frame))
    unpacker.feed(frame)
    try:
        unpacker.skip()
    except (*_MALFORMED, msgpack.UnpackException) as error:
        raise RemoteProtocolError(f"a header that cannot be unpacked ({type(error).__name__})") from error


def _error_of(code: int, facts: Any, remark: Any) -> ZenitError:
    """The error of a reply; if the facts do not fit its class, a plain ZenitError with the remark."""
    text = remark if type(remark) is str else f"error {code}"
    if code not in _ERRORS or type(facts) is not tuple:
        return ZenitError(text)
    types, given = _fact_types(code), tuple(map(type, facts))
    if not all(kind is expected or expected is object for kind, expected in zip(given, types, strict=False)):
        return ZenitError(text)
    return error_from_wire(code, list(facts), text)
