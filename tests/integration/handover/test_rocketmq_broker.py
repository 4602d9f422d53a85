"""RocketMQ's own broker takes over a store of ours, with what waits in it, and ours takes it back.

It runs where Java, Maven and the jars of pom.xml are there already; it downloads nothing.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

import pop_scene
import pytest
import transaction_kit
from handover_kit import Life, unique
from lite_scene import LiteScene
from store_kit import SMALL, StillClock, light, make_store, message, put, put_batch, read_queue

from zenitmq.broker.group.hand_over import hand_over
from zenitmq.broker.state.state_log import OFFSETS, TOPICS
from zenitmq.model.clock import SystemClock
from zenitmq.model.names import HALF_TOPIC, TIMER_TOPIC, UNDECIDED_TOPIC
from zenitmq.model.queue import QueueOffset
from zenitmq.model.route import TopicConfig
from zenitmq.store.config import StoreConfig
from zenitmq.store.message_store import Placed
from zenitmq.store.offline.convert import convert_store

HERE = Path(__file__).parent
SEGMENT = 1 << 17
CONFIG = StoreConfig(**{**SMALL, "segment_bytes": SEGMENT})
LATER = range(100, 160)
FAR = (200, 201)
RECALLED = (300, 301)
LEVELS = (400, 401, 402)
HOUR_MS = 3_600_000
OPEN = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/jdk.internal.ref", "java.base/java.lang")


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Java's class path of RunBroker, with RocketMQ's broker and all it needs; compiled once, not by each Java."""
    jars, folder = folder_of_jars(tmp_path_factory), tmp_path_factory.mktemp("classes")
    command = ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(folder), str(HERE / "RunBroker.java")]
    subprocess.run(command, check=True, timeout=120)
    return f"{folder}:{jars}/*"


def folder_of_jars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = os.environ.get("ZENIT_ROCKETMQ_JARS")
    if given:
        return Path(given)
    if not shutil.which("javac") or not shutil.which("mvn"):
        pytest.skip("RocketMQ's own broker is not tried: there is no Java, or no Maven")
    folder = tmp_path_factory.mktemp("jars")
    command = ["mvn", "-o", "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
    made = subprocess.run(
        [*command, f"-DoutputDirectory={folder}"], capture_output=True, text=True, timeout=120, check=False
    )
    if made.returncode:
        pytest.skip("RocketMQ's own broker is not tried: its jars are not here (CONTRIBUTING.md says how to get them)")
    return folder


def free_ports() -> int:
    """Of a broker for its clients; it takes the one two below as well, and the next is for replicas."""
    while True:
        with ExitStack() as bound:
            first = bound.enter_context(socket.socket())
            first.bind(("", 0))
            port = int(first.getsockname()[1])
            with suppress(OSError):
                for other in (port - 2, port + 1):
                    bound.enter_context(socket.socket()).bind(("", other))
                return port


def run_rocketmq(classes: str, work: Path, settings: dict[str, str], script: list[str]) -> dict[str, str]:
    """{line of the script: what came of it}: its broker has the store meanwhile (RunBroker.java)."""
    conf, lines = work / "broker.conf", work / "script"
    port = free_ports()
    mine = {"brokerName": "broker-a", "brokerClusterName": "zenit", "listenPort": port, "haListenPort": port + 1}
    mine["transactionMetricFlushInterval"] = (
        200  # for as long as that, 3 s by itself, a thread of it spins at its start
    )
    conf.write_text("".join(f"{name}={value}\n" for name, value in {**settings, **mine}.items()))
    lines.write_text("\n".join(script))
    options = [f"--add-{kind}={package}=ALL-UNNAMED" for package in OPEN for kind in ("opens", "exports")]
    java = ["java", "-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Duser.home={work}"]
    command = [*java, "-Dtls.server.mode=disabled", *options, "-cp", classes, "RunBroker", str(conf), str(lines)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=work)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    told = (line.partition(" =") for line in done.stdout.splitlines())
    return {line: result.strip() for line, _, result in told if line in script}


def fill(directory: Path) -> None:
    with Life(directory, StillClock(SystemClock().now_ms()), config=CONFIG) as life:
        life.begin()
        life.delay(0, 1)
        life.delay(1, 2000, named=False)
        for number in LATER:
            life.delay(number, 15_000 + number * 10)
        for number in FAR:
            life.delay(number, HOUR_MS)
        for number in LEVELS:
            life.delay_by_level(number, 3)
        for number in RECALLED:
            offset = life.delay(number, 15_000)
            life.delays.stage_end(offset, "t", unique(number), life.clock.time_ms + 15_000)
            life.store.commit()
        put(life.store, "t", 0, *(message("t", b"x" * 30_000) for _ in range(3)))
        put(life.store, "t", 0, *(message("t", b"x" * 30_000) for _ in range(3)))
        assert life.store.written > SEGMENT


def fill_queues(directory: Path) -> tuple[int, int, int]:
    """Ten messages with keys, a second apart, of which group g has three; two transactions that nobody decided. Returns the
    physical offset and the time of the sixth message, and the queue offset of the first half message once it is handed over."""
    began_ms = SystemClock().now_ms() - 60_000
    placed: list[Placed] = []
    with Life(directory, StillClock(began_ms), config=CONFIG) as life:
        life.state.stage(life.store, TOPICS, life.state.topic_table.event_set(TopicConfig("read", 1, 1)))
        for number in range(10):
            life.clock.time_ms = began_ms + 1000 * number
            named = {"keys": f"k{number} all", "unique": unique(1000 + number)}
            placed.append(put(life.store, "read", 0, message("read", b"%d" % number, **named)))
        event = life.state.offset_table.event_committed("g", [("read", 0, 3, -1)])
        life.state.stage(life.store, OFFSETS, event)
        life.store.commit()
    with transaction_kit.Scene(directory, StillClock(began_ms + 60_000), segment_bytes=SEGMENT) as scene:
        for number in (0, 1):
            scene.send(b"pay%d" % number, f"A{number}", queue_id=0, PSEQ=f"p {number}")
        halves = int(scene.store.max_offset(HALF_TOPIC, 0))
    return int(placed[5].physical_offset), began_ms + 5000, halves


def fill_pops(directory: Path) -> None:
    """Ten messages of "work", six of them popped: 0, 2 and 5 are done, 3 was given back, 1 and 4 are leased. Two of a topic
    with priorities."""
    with pop_scene.Scene(directory, StillClock(SystemClock().now_ms()), segment_bytes=SEGMENT) as scene:
        scene.create("work")
        urgent = TopicConfig("alerts", 3, 3, attributes={"message.type": "PRIORITY"})
        scene.state.stage(scene.store, TOPICS, scene.state.topic_table.event_set(urgent))
        scene.turn()
        scene.send(*(b"%d" % number for number in range(10)), topic="work")
        scene.send(b"low", topic="alerts", queue_id=0)
        scene.send(b"high", topic="alerts", queue_id=2)
        scene.turn()
        popped = scene.pop(6, group="workers", topic="work", start="first")
        scene.turn()
        ((_, _, handle, _),) = popped.reply.parts
        scene.ack((handle, 0b100101), group="workers", topic="work")
        scene.turn()
        scene.release((handle, 0b001000), group="workers", topic="work")
        scene.turn()


@pytest.mark.timeout(400)  # 30 s of a machine that does nothing else
def test_rocketmq_goes_on_and_back_here_nothing_is_lost_or_comes_again(
    classes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first queues were in RocksDB, and in the end they are again."""
    directory = tmp_path / "s"
    with monkeypatch.context() as at_first:
        at_first.setitem(SMALL, "consume_queue", "rocksdb")
        fill(directory)
        sixth, sixth_ms, half = fill_queues(directory)
    convert_store(str(directory), "file", CONFIG, report=lambda _done, _total: None)
    fill_pops(directory)
    document = hand_over(str(directory), CONFIG, clock=SystemClock())
    due = {0, 1, *LATER, *LEVELS}
    assert document["waiting"] == len(due) + len(FAR)
    with make_store(directory, segment_bytes=SEGMENT) as store:
        half_at = int(store.position_of(HALF_TOPIC, 0, QueueOffset(half)) or 0)
    told = run_rocketmq(
        classes,
        tmp_path,
        {**document["broker_conf"], "transactionCheckInterval": "600000"},
        [
            "at read 0 7",
            "key read k7",
            f"key read {unique(1007)}",
            "key read all",
            f"id {sixth}",
            f"time read 0 {sixth_ms}",
            "consume g read 0",
            "append read 0 new",
            "pop workers work 3 600000 keep",
            "pop workers work 32 600000 ack",
            "pop watchers alerts 2 60000 ack",
            f"commit g {half_at} {half}",
            f"wait t {7 + len(due)} 60",
            "sleep 3",
            "count t 0",
        ],
    )
    assert told == {
        "at read 0 7": "7",
        "key read k7": "7",
        f"key read {unique(1007)}": "7",
        "key read all": "0 1 2 3 4 5 6 7 8 9",
        f"id {sixth}": "5",
        f"time read 0 {sixth_ms}": "5",
        "consume g read 0": "3 4 5 6 7 8 9",
        "append read 0 new": "PUT_OK",
        "pop workers work 3 600000 keep": told["pop workers work 3 600000 keep"],
        "pop workers work 32 600000 ack": told["pop workers work 32 600000 ack"],
        "pop watchers alerts 2 60000 ack": "high/0 low/0",
        f"commit g {half_at} {half}": "0",
        f"wait t {7 + len(due)} 60": str(7 + len(due)),
        "sleep 3": "",
        "count t 0": str(7 + len(due)),
    }
    kept = told["pop workers work 3 600000 keep"].split()
    popped = [*kept, *told["pop workers work 32 600000 ack"].split()]  # those of the retry topic come first, or last
    assert sorted(popped) == ["1/1", "3/0", "4/1", "6/0", "7/0", "8/0", "9/0"]
    clock = StillClock(SystemClock().now_ms() + HOUR_MS)
    with pop_scene.Scene(directory, clock, segment_bytes=SEGMENT) as scene:
        scene.pass_ms(100)
        for group, topic, expected in (
            ("workers", "work", sorted(one[:1].encode() for one in kept)),
            ("watchers", "alerts", []),
        ):
            again = scene.pop(32, group=group, topic=topic)
            scene.turn()
            assert sorted(again.bodies) == expected
    clock = StillClock(SystemClock().now_ms())
    with Life(directory, clock, config=CONFIG) as life:
        assert [record.body for record in read_queue(life.store, "read", 0)][9:] == [b"9", b"new"]
        assert life.state.offset_table.committed("g") == [("read", 0, 10)]
        found = [record for record in read_queue(life.store, "t", 0) if record.body[:1].isdigit()]
        assert sorted(int(record.body) for record in found) == sorted(due)
        for record in found:
            out_ms = int(record.properties["TIMER_OUT_MS"])
            assert out_ms <= record.stored_at_ms
            deliver_at_ms = int(record.properties.get("TIMER_DELIVER_MS", out_ms))
            assert deliver_at_ms - 1001 <= record.stored_at_ms
        handed = read_queue(life.store, TIMER_TOPIC, 0)
        assert len(handed) >= document["waiting"]
        all_bodies = life.deliver(clock.time_ms + 2 * HOUR_MS)
        assert sorted(int(body) for body in all_bodies if body[:1].isdigit()) == sorted([*due, *FAR])
        assert all_bodies.count(b"pay0") == 1
    with transaction_kit.Scene(directory, clock, segment_bytes=SEGMENT) as scene:
        for ms in (transaction_kit.RULES.timeout_ms, 0):
            scene.pass_ms(ms)
        assert not scene.asked, "A0 is committed, A1 is parked: it was born long ago"
        (parked,) = (scene.transactions.found_at(entry) for entry in scene.transactions.listed(0, 9))
        assert parked is not None
        assert (parked[0].topic, parked[0].body) == (UNDECIDED_TOPIC, b"pay1")
    assert convert_store(str(directory), "rocksdb", CONFIG, report=lambda _done, _total: None)["gaps"] == 0
    monkeypatch.setitem(SMALL, "consume_queue", "rocksdb")
    with make_store(directory, segment_bytes=SEGMENT) as store:
        assert [record.body for record in read_queue(store, "read", 0)][9:] == [b"9", b"new"]


def fill_batches(directory: Path) -> int:
    """A batch topic with three batches, a second apart, the second one compressed. Returns the time of the second."""
    began_ms = SystemClock().now_ms() - 60_000
    with Life(directory, StillClock(began_ms), config=CONFIG) as life:
        config = TopicConfig("batches", 1, 1, attributes={"queue.type": "BatchCQ"})
        life.state.stage(life.store, TOPICS, life.state.topic_table.event_set(config))
        life.store.commit()
        for begin, count in ((0, 3), (3, 2), (5, 1)):
            records = [
                message("batches", b"m%d" % number, tags="red", keys=f"k{number}")
                for number in range(begin, begin + count)
            ]
            put_batch(life.store, "batches", 0, *records, compress_over=0 if begin == 3 else 1 << 20)
            life.clock.time_ms += 1000
    return began_ms + 1000


@pytest.mark.timeout(400)
def test_rocketmq_reads_our_batches_and_we_read_its(classes: str, tmp_path: Path) -> None:
    directory = tmp_path / "s"
    second_ms = fill_batches(directory)
    document = hand_over(str(directory), CONFIG, clock=SystemClock())
    script = [
        "count batches 0",
        "inner batches 0 0",
        "inner batches 0 4",
        "inner batches 0 5",
        f"time batches 0 {second_ms}",
        "batch batches 0 j0,j1,j2",
        "wait batches 9 20",
        "inner batches 0 7",
    ]
    told = run_rocketmq(classes, tmp_path, document["broker_conf"], script)
    assert told == {
        "count batches 0": "6",
        "inner batches 0 0": "m0@0red m1@1red m2@2red",
        "inner batches 0 4": "m3@3red m4@4red",
        "inner batches 0 5": "m5@5red",
        f"time batches 0 {second_ms}": "3",
        "batch batches 0 j0,j1,j2": "PUT_OK",
        "wait batches 9 20": "9",
        "inner batches 0 7": "j0@6java j1@7java j2@8java",
    }
    with make_store(directory, segment_bytes=SEGMENT) as store:
        found = read_queue(store, "batches", 0)
        assert [(one.queue_offset, one.body) for one in found] == [
            *((number, b"m%d" % number) for number in range(6)),
            *((6 + number, b"j%d" % number) for number in range(3)),
        ]
        assert {one.tags for one in found} == {"red", "java"}
        assert put_batch(store, "batches", 0, message("batches", b"m9")).queue_offset == 9


@pytest.mark.timeout(300)
@pytest.mark.parametrize("is_rebuilt", [False, True])
def test_rocketmq_reads_light_queues_and_adds_to_them(classes: str, tmp_path: Path, is_rebuilt: bool) -> None:
    """From the queues that it is given, or made again by itself from the log; what it writes is read here."""
    directory, first, second = tmp_path / "s", "%LMQ%a", "%LMQ%$chats$b"
    with Life(directory, StillClock(SystemClock().now_ms()), config=CONFIG) as life:
        life.state.stage(life.store, TOPICS, life.state.topic_table.event_set(TopicConfig("chats", 1, 1)))
        for number in range(6):
            names = [first] if number % 2 else [first, second]
            put(life.store, "chats", 0, light("chats", b"%d" % number, *names), message("chats", b"x"))
    document = hand_over(str(directory), CONFIG, clock=SystemClock())
    if is_rebuilt:
        shutil.rmtree(directory / "consumequeue")
    script = [
        f"wait {first} 6 20",
        f"at {first} 0 5",
        f"at {second} 0 2",
        f"append chats 0 6 {first},{second}",
        f"wait {second} 4 20",
        f"at {first} 0 6",
        f"count {first} 0",
    ]
    told = run_rocketmq(classes, tmp_path, document["broker_conf"], script)
    assert list(told.values()) == ["6", "5", "4", "PUT_OK", "4", "6", "7"]
    with make_store(directory, segment_bytes=SEGMENT) as store:
        for name, expected in ((first, list(range(7))), (second, [0, 2, 4, 6])):
            found = read_queue(store, name, 0)
            assert [int(record.body) for record in found] == expected
            assert [record.queue_offset for record in found] == list(range(len(expected)))
        put(store, "chats", 0, light("chats", b"7", first))
        assert store.max_offset(first, 0) == 8


@pytest.mark.timeout(300)
def test_groups_go_on_in_lite_topics_there_and_back(classes: str, tmp_path: Path) -> None:
    """And in plain topics: with light queues RocketMQ looks for the offsets of all groups in another file."""
    directory, first, second = tmp_path / "s", "%LMQ%$chats$a", "%LMQ%$chats$b"
    clock, sizes = StillClock(SystemClock().now_ms()), {"segment_bytes": SEGMENT}
    with LiteScene(directory, clock, **sizes) as scene:
        scene.create_parent()
        scene.create("t")
        scene.settle(bind_topic="chats")
        scene.turn()
        scene.say("a", *(b"%d" % number for number in range(6)))
        scene.say("b", b"0")
        scene.send(*(b"%d" % number for number in range(4)))
        event = scene.state.offset_table.event_committed("g", [("t", 0, 3, -1)])
        scene.state.stage(scene.store, OFFSETS, event)
        scene.turn()
        scene.subscribe("a")
        popped = scene.receive(4)
        scene.turn()
        scene.ack_lite(popped, "a", 0b0011)
        scene.turn()
    document = hand_over(str(directory), CONFIG, clock=SystemClock())
    script = ["sleep 1", "consume g t 0", f"consume g {first} 0", f"consume g {second} 0"]
    told = run_rocketmq(classes, tmp_path, document["broker_conf"], script)
    assert list(told.values())[1:] == ["3", "2 3 4 5", "0"]
    with LiteScene(directory, clock, **sizes) as scene:
        scene.subscribe("a", "b")
        scene.pass_ms(3_600_000)
        asked = scene.receive()
        scene.turn()
        assert asked.bodies == []
        assert scene.state.offset_table.offset("g", "t", 0) == 4
