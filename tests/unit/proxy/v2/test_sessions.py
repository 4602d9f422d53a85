"""What a session of a gRPC client holds at the brokers, and when it lets go of it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from zenitmq.proxy.back.presence import SILENT_MS
from zenitmq.proxy.schema import message_class
from zenitmq.proxy.v2.sessions import UNLINKED_MS, WAITING_BYTES_MAX, Sessions


class Back:
    """Notes what is told of presence."""

    def __init__(self) -> None:
        self.user = "u"
        self.told: list[tuple[str, str]] = []
        self.lite_pops = SimpleNamespace(forget=lambda _: None)
        self.presence = self

    async def own(self, owner: str, client: Any) -> None:
        """Told."""
        self.told.append(("own", owner))

    def disown(self, owner: str) -> None:
        """Told."""
        self.told.append(("disown", owner))

    def lose(self, client_id: str, listener: Any) -> None:
        """Told."""
        self.told.append(("lose", client_id))

    async def leave(self, client_id: str) -> None:
        """Told."""
        self.told.append(("leave", client_id))


def call_through(back: Back) -> Any:
    caller = SimpleNamespace(client_id="c", language="JAVA", version="5", address="10.1.2.3", namespace="")
    return SimpleNamespace(caller=caller, back=back)


def test_leases_are_owned_by_the_session_and_by_no_other_of_the_same_client() -> None:
    back, sessions, others = Back(), Sessions(), Sessions()
    call = call_through(back)
    owner = asyncio.run(sessions.on_renewing(call))
    assert asyncio.run(sessions.on_renewing(call)) == owner
    assert asyncio.run(others.on_renewing(call)) != owner, "another proxy that its client came to"
    assert [what for what, _ in back.told] == ["own", "own"]
    asyncio.run(sessions.end(call))
    assert back.told[2:] == [("disown", owner), ("leave", "c")]


def test_a_link_that_has_ended_is_not_told_as_a_goodbye() -> None:
    back, sessions = Back(), Sessions()
    owner = asyncio.run(sessions.on_renewing(call_through(back)))
    (session,) = sessions.all()
    sessions.look()
    assert back.told == [("own", owner)]
    session.heard_ms -= UNLINKED_MS + 1
    sessions.look()
    assert back.told[1:] == [("disown", owner), ("lose", "c")]
    assert not sessions.all()


def test_a_client_that_is_silent_on_an_open_link_keeps_no_leases_until_it_receives_again() -> None:
    back, sessions = Back(), Sessions()
    owner = asyncio.run(sessions.on_renewing(call_through(back)))
    (session,) = sessions.all()
    session.link(SimpleNamespace())
    session.heard_ms -= SILENT_MS + 1
    sessions.look()
    assert back.told[1:] == [("disown", owner)]
    asyncio.run(sessions.on_renewing(call_through(back)))
    assert back.told[2:] == [("own", owner)]


def test_a_session_goes_on_by_its_users_new_way_to_the_cluster() -> None:
    old, new, sessions = Back(), Back(), Sessions()
    asyncio.run(sessions.on_renewing(call_through(old)))
    owner = asyncio.run(sessions.on_renewing(call_through(new)))
    assert new.told == [("own", owner)]


def test_what_waits_for_a_client_that_does_not_read_is_bounded() -> None:
    async def tell() -> int:
        session = Sessions().of(call_through(Back()))
        session.link(SimpleNamespace(write=lambda _: asyncio.sleep(60)))
        command = message_class("TelemetryCommand")()
        command.recover_orphaned_transaction_command.message.body = bytes(WAITING_BYTES_MAX // 4)
        for _ in range(10):
            session.tell(command)
        return len(session._waiting)  # what no user sees

    assert asyncio.run(tell()) == 3


class Stream:
    """Takes what it is told once it is read."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.is_read = asyncio.Event()

    async def write(self, message: Any) -> None:
        await self.is_read.wait()
        self.told.append(message)


def test_a_new_stream_is_told_though_nobody_reads_the_one_before() -> None:
    """The network of a client changed: its old connection lasts for two minutes."""

    async def run() -> None:
        back, sessions = Back(), Sessions()
        session = sessions.of(call_through(back))
        old, new = Stream(), Stream()
        command = message_class("TelemetryCommand")()
        session.link(old)
        session.tell(command)
        await asyncio.sleep(0)
        session.link(new)
        session.tell(command)
        new.is_read.set()
        await asyncio.wait_for(session.finish(new), 5)
        session.unlink(old)
        assert (old.told, new.told) == ([], [command])
        session.tell(command)
        await asyncio.wait_for(session.finish(new), 5)
        assert len(new.told) == 2

    asyncio.run(run())


def test_brokers_are_told_the_last_of_what_a_client_says_of_itself_in_a_row() -> None:
    """Each change asks all of them, and one that is told later could arrive sooner."""

    async def run() -> None:
        back, sessions = Back(), Sessions()
        joined: list[Any] = []
        is_told = asyncio.Event()

        async def join(client: Any, listener: Any) -> None:
            joined.append(client)
            await is_told.wait()

        back.join = join  # type: ignore[attr-defined]
        session = sessions.of(call_through(back))
        for number in range(100):
            told = SimpleNamespace(topics=(), subscriptions=(), client=lambda _, number=number: number)
            sessions.on_settings(session, told)  # type: ignore[arg-type]
            await asyncio.sleep(0)
        is_told.set()
        while session.joining is not None:
            await asyncio.sleep(0)
        assert joined == [0, 99]

    asyncio.run(run())
