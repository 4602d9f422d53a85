"""What a user does with a cluster: up and down, messages in and out, groups moved, stores read. Real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from zenitmq.client.administration.pipeline_calls import pipeline_calls
from zenitmq.deploy.processes import birth_of, wait_ended
from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.model.queue import MessageQueue

ZENIT = str(Path(sys.executable).with_name("zenit"))
OPERATE = Path(__file__).parents[3] / "docs" / "operate.md"
SMALL_STORE = (
    "--set",
    "store.segment_bytes=1048576",
    "--set",
    "store.index_slots=1024",
    "--set",
    "store.index_entries=4096",
)


class Session:
    """Runs `zenit` with a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.directory = str(home / "z")
        self.environment = {**os.environ, "HOME": str(home)}
        self.environment.pop("ZENIT_NAMESRV", None)

    def run(self, *arguments: str, stdin: bytes = b"", status: int = 0) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [ZENIT, *arguments],
            input=stdin,
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == status, (
            f"zenit {' '.join(arguments)}: {done.returncode}\n{done.stdout!r}\n{done.stderr!r}"
        )
        assert b"Traceback" not in done.stderr
        return done

    def out(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return self.run(*arguments, stdin=stdin).stdout

    def json(self, *arguments: str, stdin: bytes = b"") -> Any:
        return json.loads(self.out(*arguments, "--json", stdin=stdin))

    def consume(self, topic: str, group: str, *more: str) -> list[bytes]:
        return self.out("consume", topic, "--group", group, "--idle-exit", "1", *more).split(b"\n")[:-1]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """One cluster for the tests of this file that leave it up; each uses topics and groups of its own."""
    made = Session(tmp_path_factory.mktemp("session"))
    made.run("up", "--dir", made.directory, "--detach", *SMALL_STORE)
    yield made
    made.run("down", "--dir", made.directory)


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Session]:
    """A session without a cluster; whatever it starts is ended."""
    made = Session(tmp_path)
    yield made
    if (tmp_path / "z" / "cluster.json").exists():
        made.run("down", "--dir", made.directory)


def broker_of(status: dict[str, Any]) -> dict[str, Any]:
    (broker,) = [process for process in status["processes"] if process["role"] == "broker"]
    return broker


# ---- up, down, status


def test_status_tells_what_runs(session: Session) -> None:
    status = session.json("status", "--dir", session.directory)
    assert [(p["role"], p["up"]) for p in status["processes"]] == [("namesrv", True), ("broker", True)]
    assert status["namesrv"] == status["processes"][0]["address"]
    (group,) = status["groups"]
    assert (group["broker_name"], group["master"], group["in_sync"], group["min_in_sync"]) == (
        "broker-a",
        "broker-a",
        ["broker-a"],
        1,
    )
    (replica,) = group["replicas"]
    assert replica["role"] == "master"
    assert replica["epoch"] == group["epoch"] >= 1
    assert replica["written_offset"] >= replica["flushed_offset"] >= 0
    assert b"broker-a" in session.out("status", "--dir", session.directory)


def keys_in(document: Any) -> Any:
    """The keys of a document and of those in it; None for all else."""
    if isinstance(document, dict):
        return {key: keys_in(value) for key, value in document.items()}
    return [keys_in(one) for one in document if isinstance(one, dict)] if isinstance(document, list) else None


def test_the_sample_of_the_docs_is_what_status_prints(session: Session) -> None:
    (sample,) = re.findall(r"`status --json` prints\n\n```json\n(.*?)```", OPERATE.read_text(), re.DOTALL)
    assert keys_in(json.loads(sample)) == keys_in(session.json("status", "--dir", session.directory))


def test_what_queries_keep_and_what_readers_hold_is_shown(session: Session) -> None:
    session.run("topic", "create", "held", "--queues", "1")
    kept = {"held": {"broker-a": {"0": 7}}}
    with pipeline_calls(session.json("status", "--dir", session.directory)["namesrv"]) as calls:
        calls.keep_query_offsets("daily", json.dumps(kept))
        hold = calls.hold("a long scan", {MessageQueue("held", "broker-a", 0): 0}, seconds=60)
        assert b"a long scan" in session.out("status", "--dir", session.directory)
        calls.release(hold)
        assert b"a long scan" not in session.out("status", "--dir", session.directory)
    assert b"daily" in session.out("query-offsets", "list")
    assert json.loads(session.out("query-offsets", "show", "daily")) == kept
    assert session.json("query-offsets", "show", "daily") == {"query": "daily", "kept": {"broker-a": kept}}
    session.run("query-offsets", "drop", "daily")
    for command in ("show", "drop"):
        assert b"no offsets of query" in session.run("query-offsets", command, "daily", status=1).stderr


def test_a_taken_port_is_chosen_around(apart: Session) -> None:
    """Two clusters at once: the second finds the ports of the first taken."""
    first = apart.json("up", "--dir", apart.directory, "--detach", *SMALL_STORE)
    other = Session(apart.home)
    other.directory = str(apart.home / "other")
    try:
        second = other.json("up", "--dir", other.directory, "--detach", *SMALL_STORE)
        ports = [int(p["address"].rpartition(":")[2]) for up in (first, second) for p in up["processes"]]
        assert len(set(ports)) == 4
        assert {(port - base) % 10 for port, base in zip(ports, (9876, 10911) * 2, strict=True)} == {0}
        assert (apart.home / ".zenit" / "last").read_text().strip() == other.directory
    finally:
        other.run("down", "--dir", other.directory)


def test_up_starts_only_what_is_down_on_the_ports_it_had(apart: Session) -> None:
    first = apart.json("up", "--dir", apart.directory, "--detach", *SMALL_STORE)
    apart.run("topic", "create", "kept", "--queues", "2")
    apart.run("produce", "kept", stdin=b"one\ntwo\n")
    pids = {p["role"]: p["pid"] for p in first["processes"]}
    birth = birth_of(pids["broker"])
    assert birth is not None
    os.kill(pids["broker"], signal.SIGKILL)
    assert wait_ended(pids["broker"], birth, timeout_ms=5000)
    down = apart.json("status", "--dir", apart.directory)
    assert [p["up"] for p in down["processes"]] == [True, False]
    assert down["groups"][0]["master"] is None

    again = apart.json("up", "--dir", apart.directory, "--detach")
    assert [p["address"] for p in again["processes"]] == [p["address"] for p in first["processes"]]
    assert again["processes"][0]["pid"] == pids["namesrv"]
    assert again["processes"][1]["pid"] != pids["broker"]
    assert sorted(apart.consume("kept", "g")) == [b"one", b"two"]
    assert apart.json("broker", "config")["store.segment_bytes"] == 1048576  # settings are kept


def test_down_twice_ends_nothing_the_second_time(apart: Session) -> None:
    apart.run("up", "--dir", apart.directory, "--detach", *SMALL_STORE)
    ended = apart.json("down", "--dir", apart.directory)["ended"]
    assert [process["role"] for process in ended] == ["broker", "namesrv"]
    assert apart.json("down", "--dir", apart.directory)["ended"] == []


def test_in_the_foreground_it_ends_with_the_signal(apart: Session) -> None:
    command = [ZENIT, "up", "--dir", apart.directory, *SMALL_STORE]
    with subprocess.Popen(
        command,
        env=apart.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a suite in the background inherits "ignore"
    ) as up:
        assert up.stdout is not None
        line = up.stdout.readline()
        assert line.startswith(b"role")
        up.send_signal(signal.SIGINT)
        _, errors = up.communicate(timeout=60)
    assert up.returncode == 0, errors
    status = apart.json("status", "--dir", apart.directory)
    assert [process["up"] for process in status["processes"]] == [False, False]


def test_a_setting_that_cannot_be_is_told_in_one_line(apart: Session) -> None:
    done = apart.run("up", "--dir", apart.directory, "--detach", "--set", "store.segment_bites=1", status=2)
    assert done.stderr.count(b"\n") == 1
    assert b"segment_bites" in done.stderr
    assert b"no cluster in" in apart.run("status", "--dir", apart.directory, status=1).stderr


# ---- messages


def test_lines_come_out_byte_for_byte(session: Session, tmp_path: Path) -> None:
    """One queue keeps the order of the file: what is consumed is the file."""
    data = b"first\n\n  indented\r\n\xff\xfe not text\ntab\tbed\n" + b"x" * 5000 + b"\nlast without a break"
    file = tmp_path / "lines"
    file.write_bytes(data)
    session.run("topic", "create", "bytes", "--queues", "1")
    summary = session.json("produce", "bytes", "--file", str(file))
    assert (summary["sent"], summary["failed"]) == (7, 0)
    assert summary["bytes"] == len(data) - data.count(b"\n")
    assert summary["messages_per_second"] > 0
    assert session.out("consume", "bytes", "--group", "whole", "--idle-exit", "1") == data + b"\n"


def test_what_a_message_carries_comes_out(session: Session) -> None:
    session.run("topic", "create", "facts", "--queues", "1")
    arguments = ("--key-field", "2", "--tags", "buy", "--prop", "desk=paris", "--prop", "level=3")
    session.run("produce", "facts", *arguments, stdin=b"order o-17 acme\n")
    (row,) = [json.loads(line) for line in session.consume("facts", "json", "--json")]
    assert (row["topic"], row["queue_id"], row["broker_name"], row["queue_offset"]) == ("facts", 0, "broker-a", 0)
    assert (row["body"], row["tags"], row["keys"]) == ("order o-17 acme", "buy", ["o-17"])
    assert (row["properties"]["desk"], row["properties"]["level"]) == ("paris", "3")
    assert row["stored_at_ms"] >= row["born_at_ms"] > 1_700_000_000_000
    assert row["reconsume_times"] == 0

    by_id = session.json("message", "get", row["message_id"])
    assert by_id == session.json("message", "get", row["offset_message_id"])
    assert by_id == session.json("message", "get", row["message_id"], "--topic", "facts")
    assert by_id["body"] == row["body"]
    assert session.json("message", "query", "--topic", "facts", "--key", "o-17") == [by_id]
    assert session.json("message", "query", "--topic", "facts", "--key", "o-18") == []
    stored = str(row["stored_at_ms"])
    assert session.json("message", "query", "--topic", "facts", "--key", "o-17", "--since", stored) == [by_id]
    assert session.json("message", "query", "--topic", "facts", "--key", "o-17", "--until", "2020-01-01") == []
    assert b"o-17" in session.out("message", "query", "--topic", "facts", "--key", "o-17")


def test_a_filter_leaves_other_tags_out(session: Session) -> None:
    session.run("topic", "create", "tagged", "--queues", "2")
    for tag, lines in (("buy", b"b1\nb2\n"), ("sell", b"s1\n"), ("hold", b"h1\n")):
        session.run("produce", "tagged", "--tags", tag, stdin=lines)
    assert sorted(session.consume("tagged", "some", "--filter", "buy || hold")) == [b"b1", b"b2", b"h1"]


def test_a_format_is_used(session: Session) -> None:
    session.run("topic", "create", "formatted", "--queues", "1")
    session.run("produce", "formatted", "--key-field", "1", stdin=b"k1 x\nk2 y\n")
    lines = session.consume("formatted", "g", "--format", "{queue_id}:{queue_offset} {keys}\\t{body}")
    assert lines == [b"0:0 k1\tk1 x", b"0:1 k2\tk2 y"]


def test_a_group_goes_on_where_it_stopped_and_can_be_sent_back(session: Session) -> None:
    session.run("topic", "create", "moved", "--queues", "1")
    session.run("produce", "moved", stdin=b"1\n2\n3\n4\n5\n")
    assert session.consume("moved", "walker", "--max", "2") == [b"1", b"2"]
    group = session.json("group", "describe", "walker")
    (queue,) = group["queues"]
    assert (group["lag"], queue["lag"], queue["consumer_queue_offset"], queue["broker_queue_offset"]) == (3, 3, 2, 5)
    assert queue["lag_seconds"] >= 0
    assert session.consume("moved", "walker") == [b"3", b"4", b"5"]

    told = session.json("group", "reset-offset", "walker", "--topic", "moved", "--to", "earliest", "--dry-run")
    assert [(row["from"], row["to"]) for row in told["queues"]] == [(5, 0)]
    assert session.consume("moved", "walker") == []
    session.run("group", "reset-offset", "walker", "--topic", "moved", "--to", "3")
    assert session.consume("moved", "walker") == [b"4", b"5"]
    assert "walker" in [row["name"] for row in session.json("group", "list")]
    session.run("group", "delete", "walker")
    session.run("group", "describe", "walker", status=1)


def test_groups_have_settings_and_backlogs_are_skipped(session: Session) -> None:
    session.run("topic", "create", "behind", "--queues", "1")
    session.run("produce", "behind", stdin=b"1\n2\n3\n4\n")
    assert session.consume("behind", "slow", "--max", "1") == [b"1"]
    cloned = session.json("group", "clone-offsets", "slow", "twin", "--topic", "behind")
    assert [(row["from"], row["to"]) for row in cloned["queues"]] == [(None, 1)]
    assert b"unknown" in session.out("group", "clone-offsets", "slow", "third", "--dry-run")
    skip = ("group", "skip-backlog", "slow", "--topic", "behind")
    assert session.json(*skip, "--dry-run")["skipped"] == 3
    assert session.json(*skip)["skipped"] == 3
    assert session.consume("behind", "slow") == []
    assert session.consume("behind", "twin") == [b"2", b"3", b"4"]

    policy = 'groupRetryPolicy={"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 10}}'
    made = session.json("group", "create", "tuned", "--attr", "retryMaxTimes=5", "--attr", policy)
    assert made["attributes"]["groupRetryPolicy"]["exponentialRetryPolicy"] == {"initial": 10}
    changed = session.json("group", "update", "tuned", "--attr", "retryMaxTimes=2")["attributes"]
    assert (changed["retryMaxTimes"], changed["groupRetryPolicy"]["type"]) == (2, "EXPONENTIAL")
    for nonsense in ("retryMaxTimes=-1", "retryMaxTimes=often", 'groupRetryPolicy={"type": "NEVER"}', "nope=1"):
        done = session.run("group", "update", "tuned", "--attr", nonsense, status=1)
        assert b"expected" in done.stderr
    session.run("group", "update", "nobody", "--attr", "retryMaxTimes=2", status=1)
    session.run("group", "update", "tuned", status=2)


def test_from_says_where_a_new_group_begins(session: Session) -> None:
    session.run("topic", "create", "begun", "--queues", "1")
    session.run("produce", "begun", stdin=b"early\n")
    sleep_ms(50)
    early = json.loads(session.consume("begun", "g1", "--json")[0])["stored_at_ms"]
    session.run("produce", "begun", stdin=b"late\n")
    assert session.consume("begun", "g2", "--from", str(early + 1)) == [b"late"]
    assert session.consume("begun", "g3", "--from", "latest") == []
    assert session.consume("begun", "g4", "--from", "earliest") == [b"early", b"late"]


def test_a_topic_is_made_described_listed_and_deleted(session: Session) -> None:
    session.run("topic", "create", "shortlived", "--queues", "3", "--order", "--attr", "owner=desk")
    session.run("produce", "shortlived", stdin=b"a\nb\n")
    described = session.json("topic", "describe", "shortlived")
    assert [row["queue_id"] for row in described["queues"]] == [0, 1, 2]
    assert sum(row["max_offset"] for row in described["queues"]) == 2
    (listed,) = [row for row in session.json("topic", "list") if row["name"] == "shortlived"]
    assert (listed["write_queues"], listed["order"], listed["attributes"]) == (3, True, {"owner": "desk"})
    assert not [row for row in session.json("topic", "list") if row["system"]]
    session.run("topic", "delete", "shortlived")
    session.run("topic", "describe", "shortlived", status=1)


def test_a_rate_is_kept(session: Session) -> None:
    session.run("topic", "create", "slow", "--queues", "1")
    summary = session.json("produce", "slow", "--rate", "20", stdin=b"x\n" * 21)
    assert summary["sent"] == 21
    assert 1.0 <= summary["seconds"] < 3.0


def test_what_cannot_be_sent_is_counted_and_told(session: Session) -> None:
    session.run("topic", "create", "limited", "--queues", "1")
    too_large = os.urandom(4 * 1024 * 1024 + 1).replace(b"\n", b"y")
    done = session.run("produce", "limited", "--json", stdin=b"fits\n" + too_large + b"\nfits too\n", status=1)
    summary = json.loads(done.stdout)
    assert (summary["sent"], summary["failed"]) == (2, 1)
    assert b"1 of 3 messages failed" in done.stderr
    assert b"limit" in done.stderr
    assert session.consume("limited", "g") == [b"fits", b"fits too"]


def test_a_reader_that_stops_reading_is_no_error(session: Session) -> None:
    session.run("topic", "create", "cut", "--queues", "1")
    session.run("produce", "cut", stdin=b"".join(b"line %d %s\n" % (n, b"." * 200) for n in range(5000)))
    command = f"{ZENIT} consume cut --group cutter --idle-exit 2 | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], env=session.environment, capture_output=True, timeout=60, check=False
    )
    assert done.stdout.startswith(b"line 0 ")
    assert done.stderr == b""


def test_consume_ends_with_a_signal_and_keeps_its_place(session: Session) -> None:
    session.run("topic", "create", "watched", "--queues", "1")
    session.run("produce", "watched", stdin=b"1\n2\n")
    command = [ZENIT, "consume", "watched", "--group", "watcher"]
    with subprocess.Popen(command, env=session.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consumer:
        assert consumer.stdout is not None
        assert [consumer.stdout.readline(), consumer.stdout.readline()] == [b"1\n", b"2\n"]
        consumer.send_signal(signal.SIGTERM)
        rest, errors = consumer.communicate(timeout=30)
    assert (consumer.returncode, rest, errors) == (0, b"", b"")
    assert session.consume("watched", "watcher") == []


# ---- brokers and stores


def test_a_broker_tells_of_itself(session: Session) -> None:
    (broker,) = session.json("cluster")["brokers"]
    assert (broker["broker_name"], broker["broker_id"]) == ("broker-a", 0)
    stats = session.json("broker", "stats")
    assert stats["kernel"] in ("compiled", "interpreted")
    assert stats["positions"]["written_offset"] > 0
    assert session.json("broker", "stats", "broker-a")["address"] == broker["address"]
    assert session.json("broker", "config")["name"] == "broker-a"
    session.run("broker", "config", "broker-z", status=1)


def test_a_store_is_read_beside_its_broker(session: Session) -> None:
    store = broker_of(session.json("status", "--dir", session.directory))["store_dir"]
    session.run("topic", "create", "stored", "--queues", "1")
    session.run("produce", "stored", stdin=b"in the store\n")
    deadline = monotonic_ms() + 20_000
    while not (rows := _dumped(session, store, "stored")):
        assert monotonic_ms() < deadline
        sleep_ms(100)
    (row,) = rows
    assert row["body"] == "in the store"
    assert row["size_bytes"] > len("in the store")
    again = json.loads(session.out("store", "dump", store, "--from", str(row["physical_offset"])).split(b"\n")[0])
    assert again == row
    verdict = session.json("store", "verify", store)
    assert verdict["damaged"] == []
    assert verdict["records"] >= 1
    assert session.json("store", "inspect", store)


def _dumped(session: Session, store: str, topic: str) -> list[dict[str, Any]]:
    rows = map(json.loads, session.out("store", "dump", store).splitlines())
    return [row for row in rows if row["topic"] == topic]


def test_verify_names_damage(apart: Session) -> None:
    up = apart.json("up", "--dir", apart.directory, "--detach", *SMALL_STORE)
    apart.run("topic", "create", "hurt", "--queues", "1")
    apart.run("produce", "hurt", stdin=b"the first message\nthe second message\nthe third message\n")
    apart.run("down", "--dir", apart.directory)
    store = Path(broker_of(up)["store_dir"])
    segment = min((store / "commitlog").iterdir())
    at = segment.read_bytes().index(b"the second message")
    with segment.open("r+b") as file:
        file.seek(at)
        file.write(b"THE")
    done = apart.run("store", "verify", str(store), "--json", status=1)
    (damage,) = json.loads(done.stdout)["damaged"]
    assert damage["begin"] <= at < damage["end"]
    assert damage["reason"]
    assert done.stderr.count(b"\n") == 1
