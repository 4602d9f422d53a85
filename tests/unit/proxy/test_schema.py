"""RocketMQ's definitions: what is compiled is what they say, and they are in a pool of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_tools import protoc

from zenitmq.model.errors import RemoteProtocolError
from zenitmq.proxy.schema import DEFINITIONS, DESCRIPTORS, decoder, enum_value, message_class, methods


def files(path: str | Path) -> dict[str, bytes]:
    found = descriptor_pb2.FileDescriptorSet.FromString(Path(path).read_bytes())
    return {one.name: one.SerializeToString(deterministic=True) for one in found.file}


def test_the_descriptors_are_those_of_the_definitions(tmp_path: Path) -> None:
    compiled = tmp_path / "compiled.desc"
    words = ["protoc", f"-I{DEFINITIONS}", f"-I{os.path.dirname(protoc.__file__)}/_proto", "--include_imports"]
    assert protoc.main([*words, f"--descriptor_set_out={compiled}", "apache/rocketmq/v2/service.proto"]) == 0
    assert files(compiled) == files(DESCRIPTORS)


def test_every_definition_has_its_licence_and_is_named_in_the_notice() -> None:
    notice = Path(DEFINITIONS, "NOTICE.md").read_text(encoding="utf-8")
    for path in Path(DEFINITIONS).rglob("*.proto"):
        assert "Licensed to the Apache Software Foundation" in path.read_text(encoding="utf-8")
        assert str(path.relative_to(DEFINITIONS)) in notice


def test_the_default_pool_is_left_to_others() -> None:
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("apache.rocketmq.v2.Message")


def test_methods_of_the_service() -> None:
    found = methods()
    assert len(found) == 17
    assert found["Telemetry"].asks_stream
    assert [name for name, one in found.items() if one.answers_stream] == ["ReceiveMessage", "PullMessage", "Telemetry"]
    assert enum_value("Code", "MESSAGE_NOT_FOUND") == 40401


def test_a_message_travels_and_bytes_that_are_none_are_refused() -> None:
    request = message_class("SendMessageRequest")()
    one = request.messages.add()
    one.topic.name, one.body = "trades", b"x" * 1024
    again = decoder(type(request))(request.SerializeToString())
    assert again == request
    with pytest.raises(RemoteProtocolError):
        decoder(type(request))(b"\xff\xff\xff")
