"""The messages of RocketMQ's gRPC protocol (apache.rocketmq.v2), as classes of a descriptor pool of our own.

`definitions/` has the two .proto files as Apache published them (NOTICE.md beside them says from which commit), and what
protoc makes of them, `messaging.desc`. No generated Python is shipped: RocketMQ's own Python SDK registers the same names in
the default pool, where a second one is an error. This is the only file that imports protobuf. Pure.
It reads its own file when it is imported, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from ..model.errors import RemoteProtocolError
from ..model.plain_dataclass import dataclass

DEFINITIONS: Final = __file__.rpartition("/")[0] + "/definitions"
DESCRIPTORS: Final = f"{DEFINITIONS}/messaging.desc"
PACKAGE: Final = "apache.rocketmq.v2"
SERVICE: Final = f"{PACKAGE}.MessagingService"


@dataclass(frozen=True, slots=True)
class Method:
    """One method of the service. `asks_stream`, `answers_stream`: whether several messages go that way."""

    name: str
    request: type[Any]
    response: type[Any]
    asks_stream: bool
    answers_stream: bool


def _load() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    with open(DESCRIPTORS, "rb") as file:
        files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    for one in files.file:
        pool.Add(one)
    return pool


_POOL: Final = _load()


def message_class(name: str) -> type[Any]:
    """The class of a message of the package. Raises KeyError."""
    found: type[Any] = message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))
    return found


def enum_value(enum: str, name: str) -> int:
    """The number of a value, as enum_value("Code", "OK"). Raises KeyError."""
    return int(_POOL.FindEnumTypeByName(f"{PACKAGE}.{enum}").values_by_name[name].number)


def methods() -> dict[str, Method]:
    """{name: method} of the service."""
    service = _POOL.FindServiceByName(SERVICE)
    return {
        method.name: Method(
            method.name,
            message_factory.GetMessageClass(method.input_type),
            message_factory.GetMessageClass(method.output_type),
            method.client_streaming,
            method.server_streaming,
        )
        for method in service.methods
    }


def decoder(message: type[Any]) -> Callable[[bytes], Any]:
    """Decodes messages of a class. What it returns raises RemoteProtocolError."""
    parse = message.FromString

    def decode(data: bytes) -> Any:
        try:
            return parse(data)
        except DecodeError as error:
            raise RemoteProtocolError(f"{message.DESCRIPTOR.name} of {len(data)} bytes cannot be decoded") from error

    return decode
