"""A bare client of the proxy's gRPC side, which says what it is told to; its requests, and how it signs them."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
from collections.abc import Iterator
from typing import Any

import grpc

from zenitmq.proxy.schema import SERVICE, enum_value, methods

METHODS = methods()
SYSTEM_MESSAGE_ID = iter(range(1, 1 << 30))


class Caller:
    """A client that says what it is told to."""

    def __init__(self, channel: grpc.Channel, **metadata: str) -> None:
        self.channel = channel
        self.metadata = {"x-mq-client-id": "caller", **{f"x-mq-{name}": value for name, value in metadata.items()}}
        self.authorization = ""

    def headers(self) -> list[tuple[str, str]]:
        more = [("authorization", self.authorization)] if self.authorization else []
        return [*((name.replace("_", "-"), value) for name, value in self.metadata.items()), *more]

    def ask(self, name: str, request: Any, timeout: float = 10.0) -> Any:
        method = METHODS[name]
        path = f"/{SERVICE}/{name}"
        write, read = method.request.SerializeToString, method.response.FromString
        if method.answers_stream:
            call = self.channel.unary_stream(path, write, read)
            return list(call(request, metadata=self.headers(), timeout=timeout))
        return self.channel.unary_unary(path, write, read)(request, metadata=self.headers(), timeout=timeout)

    def telemetry(self, *told: Any, commands: Iterator[Any] | None = None) -> Any:
        """The stream's commands: those that are told, and then it ends; or those of an iterator."""
        method = METHODS["Telemetry"]
        call = self.channel.stream_stream(
            f"/{SERVICE}/Telemetry", method.request.SerializeToString, method.response.FromString
        )
        return call(iter(told) if commands is None else commands, metadata=self.headers(), timeout=10)


def request(name: str, **fields: Any) -> Any:
    made = METHODS[name].request()
    for field, value in fields.items():
        if field in ("topic", "group"):
            getattr(made, field).name = value
        elif field == "queue":
            made.message_queue.topic.name, made.message_queue.broker.name, made.message_queue.id = value
        elif field.endswith(("_ms",)):
            getattr(made, field[:-3]).seconds = value // 1000
        else:
            setattr(made, field, value)
    return made


def send_of(topic: str, *bodies: bytes) -> Any:
    made = METHODS["SendMessage"].request()
    for body in bodies:
        one = made.messages.add(body=body)
        one.topic.name = topic
        one.system_properties.message_id = f"01{next(SYSTEM_MESSAGE_ID):032X}"
        one.system_properties.body_encoding = enum_value("Encoding", "IDENTITY")
    return made


def signed(caller: Caller, key: str, secret: str) -> Caller:
    now = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%SZ")
    caller.metadata["x-mq-date-time"] = now
    signature = hmac.new(secret.encode(), now.encode(), hashlib.sha1).hexdigest()
    caller.authorization = f"MQv2-HMAC-SHA1 Credential={key}, SignedHeaders=x-mq-date-time, Signature={signature}"
    return caller
