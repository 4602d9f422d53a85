"""Calls of one connection go on in the order in which they came, though who signed them is asked of the cluster."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zenitmq.model.errors import AuthenticationFailed
from zenitmq.proxy.back.backs import Backs
from zenitmq.proxy.back.method_counts import MethodCounts
from zenitmq.proxy.v2.methods import CallFacts, MessagingMethods


class PlayedBacks:
    """Says who signed: of the first signature some turns of the loop later, of others at once; "wrong" is nobody's."""

    def __init__(self) -> None:
        self.of_all = None
        self.is_secured = True
        self.asked = None
        self.grpc_counts = MethodCounts("grpc")

    async def of(self, _key: str, signature: str, _signed: bytes, **_: object) -> Any:
        if signature == "a0":
            for _ in range(5):
                await asyncio.sleep(0)
        if signature == "ee":
            raise AuthenticationFailed("the proxy", "no")
        return SimpleNamespace(user="shop")


def facts(signature: str, peer: str = "ipv4:10.1.1.1:4711") -> CallFacts:
    signed = f"MQv2-HMAC-SHA1 Credential=shop, SignedHeaders=x-mq-date-time, Signature={signature}"
    metadata = {"x-mq-client-id": "c", "x-mq-date-time": "20260131T235959Z", "authorization": signed}
    return CallFacts(metadata, peer, None)


def test_a_signature_that_is_known_overtakes_none_that_is_asked_about() -> None:
    async def work() -> None:
        methods = MessagingMethods(cast(Backs, PlayedBacks()), polls_max=1, bytes_max=1, signed_within_ms=0)
        went: list[str] = []

        async def call(signature: str, peer: str = "ipv4:10.1.1.1:4711") -> None:
            await methods._call(facts(signature, peer))
            went.append(signature)

        calls = [call("a0"), call("b1"), call("c2"), call("d3", "ipv4:10.1.1.2:4711")]
        refused = asyncio.create_task(call("ee"))
        await asyncio.gather(*calls)
        with pytest.raises(AuthenticationFailed):
            await refused
        assert went == ["d3", "a0", "b1", "c2"]
        assert not len(methods._signing)

    asyncio.run(work())
