"""Who signed: what strangers send does not fail others' requests, nor fill memory; any broker that answers is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zenitmq.model.clock import monotonic_ms
from zenitmq.model.errors import (
    AuthenticationFailed,
    BrokerBusy,
    ConnectionLost,
    InvalidParameter,
    RequestTimeout,
    ZenitError,
)
from zenitmq.proxy.back import users as users_module
from zenitmq.proxy.back.backend import Backend
from zenitmq.proxy.back.users import Signer, Users
from zenitmq.remoting.commands import CheckSignatures, GetClusterInfo, SignaturesReply


class PlayedCluster:
    """Two masters. Signature "good" is right. `dead`, `silent`: who does not answer; `poison`: the access key whose question
    fails, with all others in it."""

    def __init__(self) -> None:
        self.connection = SimpleNamespace(routes=SimpleNamespace(document_of_ours=lambda document: document))
        self.dead: set[str] = set()
        self.silent: set[str] = set()
        self.poison: Exception | None = None
        self.asked: list[tuple[str, int]] = []
        self.backend = Backend(cast(Any, self.connection), cast(Any, self))

        async def cluster(*, deadline_ms: int) -> dict[str, Any]:
            return {"brokers": [{"broker_name": name, "address": name, "broker_id": 0} for name in "ab"]}

        self.backend.cluster = cluster  # type: ignore[method-assign]

    async def call(self, address: str, request: CheckSignatures, payload: bytes, *, timeout_ms: int) -> Any:
        assert not isinstance(request, GetClusterInfo)
        self.asked.append((address, len(request.asked)))
        if address in self.dead:
            raise ConnectionLost(address)
        if address in self.silent:
            await asyncio.sleep(timeout_ms / 1000)
            raise RequestTimeout(address, timeout_ms)
        if self.poison is not None and any(name == "poison" for name, _, _ in request.asked):
            raise self.poison
        users = tuple(name if signature == "good" else "" for name, signature, _ in request.asked)
        return SignaturesReply(users, tuple(name and f"for {name}" for name in users)), b""

    async def sleep(self, delay_ms: int) -> None:
        await asyncio.sleep(delay_ms / 1000)


def run(work: Callable[[PlayedCluster, Users], Awaitable[None]]) -> None:
    async def within() -> None:
        cluster = PlayedCluster()
        await work(cluster, Users(cluster.backend, is_secured=True, is_required=True))

    asyncio.run(within())


async def signer(
    users: Users,
    access_key: str,
    signature: str = "good",
    signed: bytes = b"now",
    left_ms: int = 5_000,
    address: str = "10.1.1.1:47",
) -> Any:
    try:
        deadline_ms = monotonic_ms() + left_ms
        return await users.signer(access_key, signature, signed, address=address, deadline_ms=deadline_ms)
    except ZenitError as error:
        return error


ALICE = Signer("alice", "for alice")


@pytest.mark.parametrize("poison", [InvalidParameter("asked", "", ""), UnicodeEncodeError("utf-8", "\ud800", 0, 1, "")])
def test_a_question_that_fails_for_one_does_for_that_one_alone(poison: Exception) -> None:
    async def work(cluster: PlayedCluster, users: Users) -> None:
        cluster.poison = poison
        names = ["alice"] * 40 + ["poison"] + ["alice"] * 40
        outcomes = await asyncio.gather(*(signer(users, name, signed=b"%d" % at) for at, name in enumerate(names)))
        assert [at for at, one in enumerate(outcomes) if one != ALICE] == [40]
        assert len(cluster.asked) < 20

    run(work)


@pytest.mark.parametrize(
    ("access_key", "signature"),
    [
        ("\ud800", "good"),
        ("alice", "\ud800"),
        ("alice", "x" * 65),
        ("x" * 256, "good"),
        ("alice", "ä"),
        ("a\n", "good"),
    ],
)
def test_what_is_no_signature_is_not_asked_about(access_key: str, signature: str) -> None:
    async def work(cluster: PlayedCluster, users: Users) -> None:
        assert isinstance(await signer(users, access_key, signature), AuthenticationFailed)
        assert not cluster.asked

    run(work)


def test_any_broker_that_answers_is_asked_and_none_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(cluster: PlayedCluster, users: Users) -> None:
        monkeypatch.setattr(users_module, "KEPT_BYTES_MAX", 0)
        for _ in range(4):
            assert await signer(users, "alice") == ALICE
        assert {name for name, _ in cluster.asked} == {"a", "b"}
        cluster.dead = {"a"}
        cluster.asked.clear()
        for _ in range(20):
            assert await signer(users, "alice", left_ms=100) == ALICE
        assert sum(name == "a" for name, _ in cluster.asked) <= 1
        cluster.dead = {"a", "b"}
        assert isinstance(await signer(users, "alice", left_ms=60), ConnectionLost | RequestTimeout)
        cluster.dead = {"b"}
        assert await signer(users, "alice") == ALICE

    run(work)


def test_each_who_asks_has_its_own_deadline() -> None:
    async def work(cluster: PlayedCluster, users: Users) -> None:
        cluster.silent = {"a", "b"}
        later = asyncio.create_task(signer(users, "alice", signed=b"1"))
        begun_ms = monotonic_ms()
        hasty = await asyncio.gather(*(signer(users, "alice", signed=b"%d" % at, left_ms=20) for at in (1, 2)))
        assert {type(one) for one in hasty} == {RequestTimeout}
        assert monotonic_ms() - begun_ms < 1_000
        cluster.silent.clear()
        later.cancel()

    run(work)


def test_a_machine_may_have_so_many_wrong_ones_asked_about(caplog: pytest.LogCaptureFixture) -> None:
    """Known answers cost nothing; who has signed rightly there, and other machines, are asked about all the same."""

    async def work(cluster: PlayedCluster, users: Users) -> None:
        assert await signer(users, "bank", signed=b"before") == Signer("bank", "for bank")
        for signed in (b"short %d", bytes(2_000) + b"long %d"):
            cluster.asked.clear()
            for number in range(150):
                await signer(users, "shop", "bad", signed % number, address=f"10.1.1.1:{number}")
            assert len(cluster.asked) <= 110
        assert isinstance(await signer(users, "shop", "bad"), BrokerBusy)
        assert isinstance(await signer(users, "shop", "bad", b"short 0"), AuthenticationFailed)
        assert isinstance(await signer(users, "alice"), BrokerBusy)
        assert await signer(users, "bank", signed=b"now") == Signer("bank", "for bank")
        assert await signer(users, "alice", address="10.1.1.2:47") == ALICE

    run(work)
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        "a client is refused: the signature of access key shop is wrong",
        "a client is refused: broker busy (too many wrong signatures came from 10.1.1.1)",
    ]


def test_what_is_wrong_fills_no_memory() -> None:
    async def work(cluster: PlayedCluster, users: Users) -> None:
        for number in range(3):
            assert isinstance(await signer(users, "alice", f"wrong {number}", bytes(1_000)), AuthenticationFailed)
        assert {len(digest) for digest in users._known._known} == {32}

    run(work)


def test_who_is_refused_is_told_what_to_do_and_so_is_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def work(_: PlayedCluster, users: Users) -> None:
        for access_key, signature, says in (("", "", "not signed"), ("shop", "bad", "access key shop is wrong")):
            for _ in range(3):
                error = await signer(users, access_key, signature)
                await signer(users, "" if access_key else "shop", "bad")  # the other kind, in between
                assert isinstance(error, AuthenticationFailed)
                assert str(error).startswith("the proxy refuses this client: ")
                assert says in str(error)
                assert "zenit user secret NAME" in str(error)

    run(work)
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        "a client is refused: its request is not signed",
        "a client is refused: the signature of access key shop is wrong",
    ]
