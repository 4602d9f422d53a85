"""The room that requests of remoting have in a proxy's process, and who leaves where it is too small."""

from __future__ import annotations

from zenitmq.proxy.request_room import HeldBytes, RequestRoom


def test_who_holds_the_most_for_the_longest_time_goes() -> None:
    room = RequestRoom(100, is_secured=False)
    slow, large, brisk = HeldBytes(), HeldBytes(), HeldBytes()
    slow.begun_ms, large.begun_ms, brisk.begun_ms = 0, 9_000, 9_990
    for held, size in ((slow, 30), (large, 60), (brisk, 10)):
        room.buffer(held, size)
    assert not room.is_over()
    room.buffer(brisk, 40)
    assert room.is_over()
    assert room.worst((slow, large, brisk), 10_000) is slow
    room.buffer(slow, -30)
    assert room.worst((slow, large, brisk), 10_000) is large
    room.buffer(large, -60)
    assert not room.is_over()


def test_strangers_have_a_small_part() -> None:
    room = RequestRoom(100, is_secured=True)
    known, stranger = HeldBytes(), HeldBytes()
    room.buffer(known, 90)
    room.know(known)
    room.know(known)
    assert not room.is_over()
    room.buffer(stranger, 9)
    assert not room.is_over()
    room.buffer(known, -50)
    room.buffer(stranger, 17)
    assert room.is_over()
    assert room.worst((known, stranger), 5) is stranger
    room.buffer(stranger, -26)
    assert not room.is_over()


def test_what_is_handled_has_a_room_of_its_own() -> None:
    room = RequestRoom(100, is_secured=True)
    known, stranger = HeldBytes(), HeldBytes()
    assert not room.take(stranger, 26)
    assert room.take(stranger, 25)
    assert not room.take(stranger, 1)
    assert room.take(known, 25) is False
    room.know(known)
    assert room.take(known, 75)
    assert not room.take(known, 1)
    room.know(stranger)
    room.give_back(stranger, 25)
    room.give_back(known, 75)
    assert (room.handled, known.handled, stranger.handled) == (0, 0, 0)
    assert room.take(HeldBytes(), 25)
