"""The first session of a new user, as the README promises it: a file goes in, the same lines come out, and nothing lies."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from forks.spawning import REAL

INTERPRETED = Path(__file__).parent.parent / "interpreted"
ZENIT = str(REAL / "zenit")


class Shell:
    """Runs `zenit` as a user would, with a home directory of its own."""

    def __init__(self, home: Path, kernel: str) -> None:
        self.environment = {**os.environ, "HOME": str(home)}
        self.environment.pop("ZENIT_NAMESRV", None)
        if kernel == "interpreted":
            self.environment["PYTHONPATH"] = str(INTERPRETED)
        self.cwd = home
        self.cluster = str(home / "z")

    def zenit(self, *arguments: str, status: int = 0) -> str:
        done = subprocess.run(
            [ZENIT, *arguments],
            env=self.environment,
            cwd=self.cwd,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == status, (
            f"zenit {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        assert "Traceback" not in done.stderr
        return done.stdout

    def json(self, *arguments: str) -> dict:
        return json.loads(self.zenit(*arguments, "--json"))


@pytest.fixture(scope="module", params=["installed", "interpreted"])
def shell(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest):
    """One cluster for the tests of each kernel; each uses topics and groups of its own."""
    made = Shell(tmp_path_factory.mktemp(request.param), request.param)
    if request.param == "interpreted":
        assert "interpreted" in made.zenit("--version")
    made.zenit("up", "--dir", made.cluster, "--detach")
    try:
        yield made
    finally:
        made.zenit("down", "--dir", made.cluster)


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    """Lines as a package log has them: a date, a time, a word, and text beyond ASCII."""
    path = tmp_path / "dpkg.log"
    path.write_text(
        "".join(
            f"2026-11-{1 + n % 28:02d} 07:{n % 60:02d}:00 install libfoo{n}:amd64 <none> 1.{n} naïve\n"
            for n in range(5000)
        )
    )
    return path


def test_a_file_goes_through_and_comes_out_whole(shell: Shell, log_file: Path) -> None:
    shell.zenit("topic", "create", "logs", "--queues", "8")
    lines = log_file.read_text().splitlines()

    sent = shell.json("produce", "logs", "--file", str(log_file), "--key-field", "1")
    assert (sent["sent"], sent["failed"]) == (len(lines), 0)
    assert sent["bytes"] == sum(len(line.encode()) for line in lines)

    received = [
        json.loads(row)
        for row in shell.zenit(
            "consume", "logs", "--group", "g", "--from", "earliest", "--idle-exit", "2", "--json"
        ).splitlines()
    ]
    assert sorted(row["body"] for row in received) == sorted(lines)
    queues = defaultdict(list)
    for row in received:
        queues[row["broker_name"], row["queue_id"]].append(row)
    for rows in queues.values():
        assert [row["queue_offset"] for row in rows] == list(range(len(rows)))
    position = {line: number for number, line in enumerate(lines)}
    for rows in queues.values():  # each queue in the order of the file
        numbers = [position[row["body"]] for row in rows]
        assert numbers == sorted(numbers)

    key = lines[0].split()[0]
    found = shell.json("message", "query", "--topic", "logs", "--key", key)
    assert found
    assert all(row["body"].startswith(key) and row["keys"] == [key] for row in found)
    one = shell.json("message", "get", found[0]["message_id"], "--topic", "logs")
    assert one["body"] == found[0]["body"]

    group = shell.json("group", "describe", "g")
    assert group["lag"] == 0
    assert sum(queue["consumer_queue_offset"] for queue in group["queues"]) == len(lines)
    assert all(queue["lag"] == 0 for queue in group["queues"])

    status = shell.json("status")  # of the cluster that was started last
    (broker,) = [process for process in status["processes"] if process["role"] == "broker"]
    assert broker["up"] is True
    checked = shell.json("store", "verify", broker["store_dir"])
    assert checked["damaged"] == []
    assert checked["records"] >= len(lines)


def test_a_second_consumer_of_the_group_finds_nothing_new(shell: Shell, log_file: Path) -> None:
    shell.zenit("topic", "create", "again", "--queues", "4")
    shell.zenit("produce", "again", "--file", str(log_file))
    consume = ("consume", "again", "--group", "h", "--from", "earliest", "--idle-exit", "1.5")
    first = shell.zenit(*consume)
    assert sorted(first.splitlines()) == sorted(log_file.read_text().splitlines())
    assert shell.zenit(*consume) == ""


def test_messages_and_positions_survive_a_stop(shell: Shell, log_file: Path) -> None:
    shell.zenit("topic", "create", "kept", "--queues", "4")
    shell.zenit("produce", "kept", "--file", str(log_file))
    shell.zenit("consume", "kept", "--group", "k", "--from", "earliest", "--max", "1000", "--idle-exit", "2")
    shell.zenit("down", "--dir", shell.cluster)
    shell.zenit("up", "--dir", shell.cluster, "--detach")
    rest = shell.zenit("consume", "kept", "--group", "k", "--from", "earliest", "--idle-exit", "2")
    assert len(rest.splitlines()) == 4000
    assert shell.json("group", "describe", "k")["lag"] == 0


def test_what_is_wrong_is_said_in_one_line(shell: Shell, tmp_path: Path) -> None:
    for arguments in (
        ("produce", "nowhere", "--file", __file__),
        ("produce", "../etc", "--file", __file__),
        ("consume", "nowhere", "--group", "g", "--idle-exit", "1"),
        ("topic", "describe", "nowhere"),
        ("message", "get", "zz"),
        ("store", "verify", str(tmp_path / "missing")),
    ):
        done = subprocess.run(
            [ZENIT, *arguments],
            env=shell.environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode in (1, 2), (arguments, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1, (arguments, done.stderr)
