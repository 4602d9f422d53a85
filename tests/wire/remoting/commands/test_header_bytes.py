"""Golden bytes of the header frame: one table drives both directions (docs/formats/remoting.md draws the layout)."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import BrokerBusy, MessageTooLarge, TopicNotFound, ZenitError
from zenitmq.remoting.commands import (
    ConsumersChanged,
    Done,
    GetBeginning,
    GetLogRange,
    GetTopics,
    Heartbeat,
    LogRangeReply,
    PullMessages,
    PullReply,
    RegisterBroker,
    Reply,
    Request,
    RouteReply,
    ScrubLog,
    SearchOffset,
    SendMessages,
    SendReply,
)
from zenitmq.remoting.header import decode_reply, decode_request, encode_error, encode_reply, encode_request

REQUESTS: list[tuple[Request, int, int, bool, str]] = [
    (SendMessages("trades", 3, 2, "shop"), 7, 3000, False, "98cd014003010700c094a67472616465730302a473686f70cd0bb8"),
    (
        PullMessages("g", "trades", 3, 1 << 40, 32, 1 << 20, 15000, (-5, 98), "a>1", 77),
        0x7FFFFFFE,
        30000,
        False,
        "980b0301ce7ffffffe00c09ba167a674726164657303cf000001000000000020ce00100000cd3a9892fb62a3613e314dc2cd7530",
    ),
    (ConsumersChanged("g"), 0, 0, True, "982803010002c091a16700"),
    (
        RegisterBroker("zenit", "broker-a", 0, "10.0.0.1:10911", 4, (("trades", 8, 8, 6),), "", "9f1c", (77,)),
        1,
        5000,
        False,
        (
            "986703010100c09ca57a656e6974a862726f6b65722d6100ae31302e302e302e313a3130393131049194a6747261646573080806a0"
            "a439663163914d00c3a0cd1388"
        ),
    ),
    (GetTopics("%DLQ%"), 2, 1000, False, "981503010200c091a525444c5125cd03e8"),
    (SearchOffset("t", 0, 1_700_000_000_000, True), 3, 1000, False, "981d03010300c094a17400cf0000018bcfe56800c3cd03e8"),
    (GetBeginning("id-1", 4, "s1", "m1"), 5, 1000, False, "98cd232e03010500c094a469642d3104a27331a26d31cd03e8"),
    (
        GetLogRange("id-1", 4, "s1", "m1", 1 << 33, (1 << 33) + 200),
        5,
        1000,
        False,
        "98cd233003010500c096a469642d3104a27331a26d31cf0000000200000000cf00000002000000c8cd03e8",
    ),
    (ScrubLog(1 << 24), 6, 1000, False, "98cd233103010600c091ce01000000cd03e8"),
    (
        Heartbeat("c", ("p",), (("g", "CLUSTERING", (("trades", "TAG", "*"),)),)),
        4,
        1000,
        False,
        "982203010400c099a16391a1709193a167aa434c5553544552494e479193a6747261646573a3544147a12aa0a0a00000a0cd03e8",
    ),
]

REPLIES: list[tuple[Reply | ZenitError, type[Reply], int, str]] = [
    (
        SendReply(3, 41, 1 << 33, 1_700_000_000_000, bytes([10, 0, 0, 1, 0, 0, 0x2A, 0x9F])),
        SendReply,
        7,
        "980003010701c0960329cf0000000200000000cf0000018bcfe56800c4080a00000100002a9f9000",
    ),
    (LogRangeReply(0x89ABCDEF), LogRangeReply, 5, "980003010501c092ce89abcdefc300"),
    (
        PullReply(9000, 9, 0, 20, 0, 0, 7, 4096, 4900),
        PullReply,
        3,
        "980003010301c09acd2328090014000007cd1000cd1324c200",
    ),
    (Done(), Done, 1, "980003010101c09000"),
    (
        RouteReply(
            (("broker-a", 8, 8, 6),),
            (("zenit", "broker-a", ((0, "10.0.0.1:10911"),)),),
            9877,
            (("zenit", "9f1c"),),
            (77,),
        ),
        RouteReply,
        5,
        (
            "980003010501c0979194a862726f6b65722d610808069193a57a656e6974a862726f6b65722d61919200ae31302e302e302e313a3130393131"
            "cd26959192a57a656e6974a439663163914d90a000"
        ),
    ),
    (
        BrokerBusy(100, "queue full"),
        Done,
        10,
        (
            "980203010a01d92c62726f6b65722062757379202871756575652066756c6c293b20726574727920616674657220313030206d73"
            "9264aa71756575652066756c6c00"
        ),
    ),
    (
        MessageTooLarge("payload", 9, 8),
        Done,
        11,
        (
            "98cd232903010b01d92f7061796c6f6164206f662039206279746573206973206f76657220746865206c696d6974206f66203820"
            "627974657393a77061796c6f6164090800"
        ),
    ),
]


@pytest.mark.parametrize(("request_", "opaque", "timeout_ms", "oneway", "golden"), REQUESTS)
def test_requests_are_these_bytes(request_: Request, opaque: int, timeout_ms: int, oneway: bool, golden: str) -> None:
    assert encode_request(request_, opaque, timeout_ms=timeout_ms, oneway=oneway).hex() == golden
    assert decode_request(bytes.fromhex(golden)) == (request_, opaque, oneway, timeout_ms, "", "")


def test_a_request_that_names_its_cluster_is_these_bytes() -> None:
    golden = "99cd014003010700c094a66f72646572730301a167cd0bb8b039663163326233613464356536663730"
    request_ = SendMessages("orders", 3, 1, "g")
    encoded = encode_request(request_, 7, timeout_ms=3000, cluster_id="9f1c2b3a4d5e6f70")
    assert encoded.hex() == golden
    assert decode_request(encoded) == (request_, 7, False, 3000, "9f1c2b3a4d5e6f70", "")


def test_a_request_of_a_gateway_is_these_bytes() -> None:
    golden = "9acd014003010700c094a66f72646572730301a167cd0bb8a0a8613a353a30306666"
    request_ = SendMessages("orders", 3, 1, "g")
    assert encode_request(request_, 7, timeout_ms=3000, delegation="a:5:00ff").hex() == golden
    assert decode_request(bytes.fromhex(golden)) == (request_, 7, False, 3000, "", "a:5:00ff")


@pytest.mark.parametrize(("reply", "reply_class", "opaque", "golden"), REPLIES)
def test_replies_are_these_bytes(reply: Reply | ZenitError, reply_class: type[Reply], opaque: int, golden: str) -> None:
    encoded = encode_error(reply, opaque) if isinstance(reply, ZenitError) else encode_reply(reply, opaque)
    assert encoded.hex() == golden
    answered, decoded = decode_reply(bytes.fromhex(golden), reply_class)
    assert answered == opaque
    assert decoded == reply or (type(decoded) is type(reply) and decoded.args == reply.args)  # type: ignore[union-attr]


def test_an_error_tells_its_text_beside_its_facts() -> None:
    """A client of another language, or an older one, shows the remark."""
    import msgpack

    code, *_, flag, remark, facts, _ = msgpack.unpackb(encode_error(TopicNotFound("trades"), 9))
    assert (code, flag, facts) == (17, 1, ["trades"])
    assert "trades" in remark
