"""Where the name servers are looked for."""

import json
import os
from pathlib import Path

import pytest

from zenitmq.client.connection.cluster import name_servers
from zenitmq.model.errors import InvalidParameter


def record(home: Path, document: object) -> None:
    directory = home / "cluster"
    (home / ".zenit").mkdir()
    directory.mkdir()
    (home / ".zenit" / "last").write_text(f"{directory}\n")
    (directory / "cluster.json").write_text(json.dumps(document))


def running(pid: int, namesrv: object = "10.0.0.9:9001") -> dict[str, object]:
    return {"cluster": "z", "namesrv": namesrv, "processes": [{"role": "namesrv", "name": "n", "pid": pid}]}


def test_argument_comes_first(tmp_path: Path) -> None:
    record(tmp_path, running(os.getpid()))
    found = name_servers("a:1, b:2;a:1", environ={"ZENIT_NAMESRV": "c:3"}, home=str(tmp_path))
    assert found == ("a:1", "b:2")


def test_then_the_environment(tmp_path: Path) -> None:
    record(tmp_path, running(os.getpid()))
    assert name_servers(environ={"ZENIT_NAMESRV": "c:3"}, home=str(tmp_path)) == ("c:3",)


@pytest.mark.parametrize("namesrv", ["10.0.0.9:9001", ["10.0.0.9:9001"]])
def test_then_the_cluster_started_last_while_it_runs(tmp_path: Path, namesrv: object) -> None:
    record(tmp_path, running(os.getpid(), namesrv))
    assert name_servers(environ={}, home=str(tmp_path)) == ("10.0.0.9:9001",)


@pytest.mark.parametrize(
    "document",
    [
        running(1 << 30),
        running(0),
        {"processes": []},
        [],
        {"namesrv": "x", "processes": [{"role": "broker", "pid": 1}]},
    ],
)
def test_record_of_a_cluster_that_is_gone_counts_for_nothing(tmp_path: Path, document: object) -> None:
    record(tmp_path, document)
    assert name_servers(environ={}, home=str(tmp_path)) == ("127.0.0.1:9876",)


def test_default_without_any_record(tmp_path: Path) -> None:
    assert name_servers(environ={}, home=str(tmp_path)) == ("127.0.0.1:9876",)


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:0", "host:65536", "host:x", "memory://x", "a:1,b"])
def test_text_that_names_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        name_servers(text, environ={}, home="/nonexistent")


def test_an_engine_is_refused_with_who_may_reach_it() -> None:
    with pytest.raises(InvalidParameter, match="inside one Python program, and only its own clients reach them"):
        name_servers("memory://x", environ={}, home="/nonexistent")
