"""A drill's `zenit up`: one that is interrupted, or hangs, or fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from store_kit import wait_until

from zenitmq.deploy.cluster_record import ClusterRecord, encode_record
from zenitmq.deploy.drills import process_servers
from zenitmq.deploy.drills.process_servers import ProcessServers
from zenitmq.model.errors import ClusterNotStarted

DEAF = """#!/bin/sh
trap "" TERM
echo $$ > "{pid}.new" && mv "{pid}.new" "{pid}"
exec 2>&-
while :; do sleep 0.05; done
"""


@pytest.mark.parametrize("record", [None, ClusterRecord(cluster="zenit", namesrv="127.0.0.1:9876")])
def test_what_an_interrupted_up_has_ended_is_no_news_at_the_end(tmp_path: Path, record: ClusterRecord | None) -> None:
    if record is not None:
        (tmp_path / "cluster.json").write_text(encode_record(record))
    ProcessServers(str(tmp_path), replicas=1, controllers=0, groups=1, settings=()).down()


def test_an_up_that_does_not_hear_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    up, pid = tmp_path / "up", tmp_path / "pid"
    up.write_text(DEAF.format(pid=pid))
    up.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(up))
    monkeypatch.setattr(process_servers, "END_S", 0.2)

    def interrupt() -> None:
        wait_until(pid.exists)
        raise KeyboardInterrupt

    servers = ProcessServers(str(tmp_path / "c"), replicas=1, controllers=0, groups=1, settings=())
    with pytest.raises(KeyboardInterrupt):
        servers.up(meanwhile=interrupt)
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


def test_an_up_that_fails_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    up = tmp_path / "up"
    up.write_text("#!/bin/sh\necho 'zenit: the jars of ZooKeeper not found' >&2\nexit 1\n")
    up.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(up))
    servers = ProcessServers(str(tmp_path / "c"), replicas=1, controllers=0, groups=1, settings=())
    with pytest.raises(
        ClusterNotStarted, match=r"^the drill's cluster did not start: the jars of ZooKeeper not found \(log: "
    ):
        servers.up()
