"""Power lost while messages are delivered; an index of what waits that is torn, damaged or gone. Each message comes once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from delay_kit import Scene
from store_kit import StillClock, kill, tear_places

from zenitmq.model.errors import StoreFormatError

SENT = [b"%d" % number * 30 for number in range(4)]
QUEUES = 2
FAR_MS = 20_000


def send_all(scene: Scene) -> None:
    """Four messages that are due soon, to two queues, and one that is not."""
    for number, body in enumerate(SENT):
        scene.delay(body, 10 + number, queue_id=number % QUEUES)
    scene.delay(b"far", FAR_MS)


def power_lost(directory: Path, left: Path) -> Path:
    """The store as the kernel would have it, under a boot that is not this one."""
    kill(directory, left)
    (left / "timers" / "LOCK").unlink()
    (left / "abort").write_text("7\nanother boot\n")
    return left


def serve(directory: Path, clock: StillClock) -> Scene:
    """Opens it and takes three turns; anew, as the broker would, where the index turns out to be damaged."""
    for _ in range(2):
        with suppress(StoreFormatError):
            scene = Scene(directory, clock)
            while scene.loop.later and scene.turns < 3:
                scene.turn()
            if not scene.damages:
                return scene
            scene.close()
    raise AssertionError("the index was made anew and is damaged still")


def assert_each_comes_once(directory: Path, now_ms: int) -> None:
    """Goes on in this store until nothing waits any more, with a restart on the way."""
    clock = StillClock(now_ms)
    for is_far in (False, True):
        clock.time_ms += FAR_MS * is_far
        scene = serve(directory, clock)
        found = [scene.bodies(queue_id=queue_id) for queue_id in range(QUEUES)]
        assert found == [[*SENT[0::QUEUES], b"far"][: 2 + is_far], SENT[1::QUEUES]]
        assert scene.delays.document()["waiting"] == 1 - is_far
        scene.close()


@pytest.mark.parametrize("is_ahead", [False, True], ids=["behind", "ahead"])
def test_power_lost_while_messages_are_delivered(tmp_path: Path, is_ahead: bool) -> None:
    """The log keeps any part of what a turn delivered. The index knows less, or, where the disk lied, more than the log."""
    clock = StillClock()
    scene = Scene(tmp_path / "s", clock)
    send_all(scene)
    begin = scene.store.written
    scene.index.on_opened(lambda: scene.store.written if is_ahead else begin)
    clock.time_ms += 1000
    scene.turn()
    scene.index.persist()
    end = scene.store.written
    assert scene.index.reflected() == (end if is_ahead else begin)
    left = power_lost(tmp_path / "s", tmp_path / "left")
    scene.close()
    log = Path("commitlog") / f"{0:020d}"
    whole = (left / log).read_bytes()
    for place in tear_places(whole, begin, end):
        torn = Path(shutil.copytree(left, tmp_path / "torn"))
        (torn / log).write_bytes(whole[:place] + bytes(len(whole) - place))
        assert_each_comes_once(torn, clock.time_ms)
        shutil.rmtree(torn)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]


HARMS: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda data: None,
    "torn": lambda data: data[: len(data) // 2],
    "end torn": lambda data: data[:-3],
    "flipped within": lambda data: flipped(data, len(data) // 2),
    "zeroed": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("kind", ["*.log", "*.sst", "MANIFEST-*", "CURRENT", "OPTIONS-*", "*"])
def test_whatever_becomes_of_the_index_the_log_tells_it_again(tmp_path: Path, kind: str) -> None:
    clock = StillClock()
    scene = Scene(tmp_path / "s", clock)
    send_all(scene)
    scene.index.persist()
    scene.index._store._db.flush()  # into a table; what comes now is in the write-ahead log
    clock.time_ms += 11  # some of them are due
    scene.turn()
    scene.index.persist()
    left = power_lost(tmp_path / "s", tmp_path / "left")
    scene.close()
    names = [path.name for path in sorted((left / "timers").glob(kind)) if path.stat().st_size]
    assert names
    for harm in HARMS.values() if kind != "*" else [HARMS["gone"]]:
        harmed = Path(shutil.copytree(left, tmp_path / "harmed"))
        for name in names:
            path = harmed / "timers" / name
            data = harm(path.read_bytes())
            if data is None:
                path.unlink()
            else:
                path.write_bytes(data)
        assert_each_comes_once(harmed, clock.time_ms + 1000)
        shutil.rmtree(harmed)
