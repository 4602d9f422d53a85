"""What is typed wrong is told in one line, before anything is done, with the exit code that the pages name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from zenitmq.testing import LocalCluster

ZENIT = str(Path(sys.executable).with_name("zenit"))


def fails(*arguments: str, cluster: LocalCluster | None = None) -> tuple[int, str]:
    """(exit code, what it said). At home nobody has started a cluster."""
    nowhere = (os.environ if cluster is None else cluster.environ) | {"HOME": "/nonexistent"}
    done = subprocess.run([ZENIT, *arguments], input=b"", capture_output=True, timeout=60, check=False, env=nowhere)
    said = done.stderr.decode()
    assert said.count("\n") == 1, said
    return done.returncode, said


@pytest.mark.parametrize(
    "arguments",
    [
        "topic list --namesrv nonsense",
        "message query --topic t --text x",
        "message query --topic t --from-offset 3",
        "consume t --group g --format {nix}",
        "bench nix",
        "bench produce --size -1",
        "bench produce --plot /no/such/directory/run.svg",
        "bench produce --plot=",
        f"bench produce --plot {'x' * 300}.svg",
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: str) -> None:
    code, said = fails(*arguments.split())
    assert code == 2, said


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("consume t --group g --no-ack", "--no-ack"),
        ("consume t --group g --ack", "--ack"),
        ("consume t --group g --invisible 5", "--invisible"),
        ("consume t --group g --pop --invisible 0", "--invisible"),
    ],
)
def test_the_option_that_is_wrong_is_named(arguments: str, named: str) -> None:
    code, said = fails(*arguments.split())
    assert (code, named in said) == (2, True), said


def test_a_host_without_an_address_is_told() -> None:
    code, said = fails("topic", "list", "--namesrv", "no-such-host.invalid:9876")
    assert (code, "the host name has no address" in said) == (1, True), said


def test_names_that_are_not_there(one_broker: LocalCluster) -> None:
    where = ("--namesrv", one_broker.namesrv)
    command = [ZENIT, "topic", "create", "mistaken", *where]
    subprocess.run(command, env=one_broker.environ, capture_output=True, timeout=60, check=True)
    for arguments, part in (
        (("produce", "mistakne"), "did you mean 'mistaken'?"),
        (("produce", "zzz"), "create it: zenit topic create zzz"),
        (("topic", "delete", "zzz"), "does not exist; those that do: zenit topic list"),
        (("consume", "zzz", "--group", "g"), "does not exist; those that do: zenit topic list"),
        (("message", "query", "--topic", "zzz", "--key", "k"), "does not exist; those that do: zenit topic list"),
        (("dlq", "show", "nobody"), "group 'nobody' does not exist"),
        (("dlq", "redrive", "nobody"), "group 'nobody' does not exist"),
        (("controller", "status", "broker-a", "--controllers", one_broker.namesrv), "another role"),
        (("controller", "status", "broker-a"), "no registered broker that answers has controllers"),
    ):
        code, said = fails(*arguments, *where, cluster=one_broker)
        assert (code, part in said) == (1, True), said


def test_a_broker_given_as_name_server_is_told(one_broker: LocalCluster) -> None:
    broker = one_broker.process(one_broker.brokers[0])
    code, said = fails("topic", "list", "--namesrv", broker.address, cluster=one_broker)
    unknown = "the public key of {} is not known: name servers tell those of registered brokers"
    is_secured = "ZENIT_KEY" in one_broker.environ  # the brokers' keys are known once a name server has told them
    wanted = (
        unknown.format(broker.address) if is_secured else "a server of another role, such as a broker, answers there"
    )
    assert (code, wanted in said) == (1, True), said


def test_ctrl_c_ends_a_bench_without_a_word(one_broker: LocalCluster) -> None:
    """A terminal signals the whole process group, workers among it."""
    command = [ZENIT, "bench", "produce", "--seconds", "60", "--limit-seconds", "0", "--namesrv", one_broker.namesrv]
    with subprocess.Popen(
        command, env=one_broker.environ, stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stderr is not None
        line = b""
        while b"bench: produce" not in line:
            line = process.stderr.readline()
            assert line, "it ended before it produced"
        os.killpg(process.pid, signal.SIGINT)
        assert (process.wait(60), process.stderr.read()) == (130, b"")
