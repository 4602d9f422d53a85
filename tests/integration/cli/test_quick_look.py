"""`zenit peek` and `zenit tail` leave no trace of their look; `consume | head` ends with its reader; `consume --pop`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from zenitmq.testing import LocalCluster

ZENIT = str(Path(sys.executable).with_name("zenit"))
WAIT_S = 60


def zenit(cluster: LocalCluster, *arguments: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(
        [ZENIT, *arguments, "--namesrv", cluster.namesrv],
        env=cluster.environ,
        input=stdin,
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def running(cluster: LocalCluster, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [ZENIT, *arguments, "--namesrv", cluster.namesrv], env=cluster.environ, stdout=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def out(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout


def test_peek_prints_the_ends_of_a_topic_and_makes_no_group(one_broker: LocalCluster) -> None:
    zenit(one_broker, "topic", "create", "peeked", "--queues", "3")
    assert zenit(one_broker, "peek", "peeked") == b""
    groups = zenit(one_broker, "group", "list", "--json")
    for number in range(3):
        zenit(one_broker, "produce", "peeked", stdin=b"line %d\n" % number)
    assert zenit(one_broker, "peek", "peeked", "-n", "2") == b"line 1\nline 2\n"
    assert zenit(one_broker, "peek", "peeked", "-n", "2", "--from", "earliest") == b"line 0\nline 1\n"
    later = zenit(one_broker, "peek", "peeked", "--from", "2020-01-01T00:00", "--max", "1", "--json")
    assert json.loads(later)["body"] == "line 0"
    assert zenit(one_broker, "group", "list", "--json") == groups


def test_tail_follows_until_ctrl_c(one_broker: LocalCluster) -> None:
    zenit(one_broker, "topic", "create", "tailed", "--queues", "2")
    zenit(one_broker, "produce", "tailed", stdin=b"before\n")
    with running(one_broker, "tail", "tailed") as process:
        assert out(process).readline() == b"before\n"
        zenit(one_broker, "produce", "tailed", stdin=b"after\n")
        assert out(process).readline() == b"after\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(WAIT_S) == 130


def test_tail_with_a_filter_waits_for_what_it_takes(one_broker: LocalCluster) -> None:
    """Whether or not any of the last messages is of that kind; and SIGTERM has its own exit code."""
    zenit(one_broker, "topic", "create", "kinds", "--queues", "1")
    zenit(one_broker, "produce", "kinds", "--tags", "sell", stdin=b"sold before\n")
    buys = running(one_broker, "tail", "kinds", "--filter", "buy")
    with buys as process, running(one_broker, "tail", "kinds", "--filter", "sell") as other:
        assert out(other).readline() == b"sold before\n"
        for tag, line in (("buy", b"bought\n"), ("sell", b"sold\n"), ("buy", b"bought again\n")):
            zenit(one_broker, "produce", "kinds", "--tags", tag, stdin=line)
        assert [out(process).readline(), out(process).readline()] == [b"bought\n", b"bought again\n"]
        assert out(other).readline() == b"sold\n"
        for each in (process, other):
            os.kill(each.pid, signal.SIGTERM)
            assert each.wait(WAIT_S) == 143


def test_a_reader_that_has_enough_ends_tail_and_consume(one_broker: LocalCluster) -> None:
    """Though no other message comes, at which they would notice that the pipe is closed."""
    zenit(one_broker, "topic", "create", "headed", "--queues", "1")
    zenit(one_broker, "produce", "headed", stdin=b"one\n")
    for arguments in (("tail", "headed"), ("consume", "headed", "--group", "head")):
        with running(one_broker, *arguments) as process:
            assert out(process).readline() == b"one\n"
            out(process).close()
            assert process.wait(WAIT_S) == 0, arguments


def test_sharding_keys_keep_lines_together_and_a_whole_file_is_one_message(
    one_broker: LocalCluster, tmp_path: Path
) -> None:
    zenit(one_broker, "topic", "create", "sharded", "--queues", "4")
    lines = b"".join(b"%d user-%d\n" % (number, number % 2) for number in range(20))
    zenit(one_broker, "produce", "sharded", "--shard-field", "2", "--prop", "by=cli", stdin=lines)
    rows = [json.loads(row) for row in zenit(one_broker, "peek", "sharded", "-n", "20", "--json").splitlines()]
    for user in ("user-0", "user-1"):
        own = [row for row in rows if row["body"].endswith(user)]
        assert len(own) == 10
        assert len({row["queue_id"] for row in own}) == 1
    assert all(row["properties"]["by"] == "cli" for row in rows)
    file = tmp_path / "page"
    file.write_bytes(b"two\nlines\n")
    zenit(one_broker, "produce", "sharded", "--whole", "--file", str(file), "--sharding-key", "user-0")
    assert zenit(one_broker, "peek", "sharded", "-n", "1") == b"two\nlines\n\n"


def test_a_shell_completes_topics_and_groups(one_broker: LocalCluster) -> None:
    zenit(one_broker, "topic", "create", "completed", "--queues", "1")
    zenit(one_broker, "group", "create", "completers")
    for line, name in (("zenit topic describe comple", "completed"), ("zenit group describe comple", "completers")):
        environment = {
            **one_broker.environ,
            "_ZENIT_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": "3",
        }
        done = subprocess.run([ZENIT], env=environment, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert done.stdout.split() == [name], done.stderr


def test_consume_by_pop_acknowledges_what_it_printed(one_broker: LocalCluster) -> None:
    zenit(one_broker, "topic", "create", "popped", "--queues", "4")
    zenit(one_broker, "produce", "popped", "--tags", "buy", stdin=b"one\ntwo\nthree\n")
    popping = ("consume", "popped", "--group", "poppers", "--pop", "--idle-exit", "1")
    (line,) = zenit(one_broker, *popping, "--max", "1", "--no-ack", "--invisible", "1", "--json").splitlines()
    first = json.loads(line)
    assert (first["reconsume_times"], first["tags"]) == (0, "buy")
    patient = (*popping[:-1], "10")  # until the first one may be seen again
    rest = [json.loads(text) for text in zenit(one_broker, *patient, "--max", "3", "--json").splitlines()]
    assert sorted(message["body"] for message in rest) == ["one", "three", "two"]
    assert {message["body"]: message["reconsume_times"] for message in rest}[first["body"]] == 1
    assert zenit(one_broker, *popping) == b""
    zenit(one_broker, "produce", "popped", "--tags", "sell", stdin=b"four\n")
    assert zenit(one_broker, *popping, "--filter", "sell") == b"four\n"


def test_options_of_pop_need_pop(one_broker: LocalCluster) -> None:
    for options in (("--no-ack",), ("--invisible", "5"), ("--pop", "--trace"), ("--pop", "--invisible", "0.1")):
        done = subprocess.run(
            [ZENIT, "consume", "popped", "--group", "g", *options, "--namesrv", one_broker.namesrv],
            capture_output=True,
            timeout=WAIT_S,
            check=False,
        )
        assert done.returncode == 2, done.stderr
