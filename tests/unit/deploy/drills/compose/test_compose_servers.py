"""What a drill does to containers, as the command lines of `docker`."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from unit.deploy.drills.compose.inspected import inspected, of

from zenitmq.deploy.drills.catalogue import Deed, Fault, Whom
from zenitmq.deploy.drills.compose import compose_servers
from zenitmq.deploy.drills.compose.compose_servers import ComposeServers
from zenitmq.deploy.drills.drilled_cluster import DrilledCluster
from zenitmq.deploy.drills.faults.faults import begun
from zenitmq.deploy.drills.faults.file_faults import Tools
from zenitmq.model.errors import InvalidParameter, RequirementMissing, SystemFault

WIPING = "run --rm --network none --volumes-from broker-a-1 --entrypoint find sha256:0 /var/lib/zenit/store -mindepth 1 -delete"
READS = ("ps", "inspect", "cp")


class Engine:
    """Takes the place of the command: notes what changes something, and answers the rest. `failing`: commands that fail."""

    def __init__(self) -> None:
        self.documents = inspected()
        self.done: list[str] = []
        self.failing: list[str] = []

    def __call__(self, *arguments: str, timeout_s: float = 1) -> bytes:
        assert timeout_s < 120
        if arguments[0] in self.failing:
            self.failing.remove(arguments[0])
            raise SystemFault(f"docker {arguments[0]}: it does not")
        if arguments[0] not in READS:
            self.done.append(" ".join(self.named(word) for word in arguments))
            return b""
        if arguments[0] == "ps":
            return "\n".join(one["Id"] for one in self.documents).encode()
        if arguments[0] == "inspect":
            return json.dumps([one for one in self.documents if one["Id"] in arguments]).encode()
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            entry = tarfile.TarInfo("admin.key")
            entry.size, entry.mode = 6, 0o644
            archive.addfile(entry, io.BytesIO(b"secret"))
        return packed.getvalue()

    def named(self, word: str) -> str:
        services = {one["Id"]: one["Config"]["Labels"]["com.docker.compose.service"] for one in self.documents}
        return services.get(word, word)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    monkeypatch.setattr(compose_servers, "docker", made)
    monkeypatch.setattr(compose_servers, "docker_both", made)
    monkeypatch.setattr(compose_servers, "AGAIN_MS", 1)
    return made


@pytest.fixture
def servers(engine: Engine, tmp_path: Path) -> ComposeServers:
    return ComposeServers("zenit", str(tmp_path))


def named(servers: ComposeServers, *names: str) -> list[Any]:
    return [one for name in names for one in servers.listed() if one.name == name]


def test_a_project_is_reached_as_its_administrator(servers: ComposeServers, tmp_path: Path) -> None:
    key = tmp_path / "admin.key"
    assert (key.read_bytes(), key.stat().st_mode & 0o777) == (b"secret", 0o600)
    assert servers.namesrv == "namesrv-1:9876,namesrv-2:9876"
    environ = servers.environ()
    assert environ["ZENIT_KEY"] == str(key)
    assert "broker-a-1:10911=127.0.0.1:19911" in environ["ZENIT_DETOURS"].split(",")
    assert (servers.replicas, servers.groups) == (3, ("broker-a", "broker-b"))


def test_an_open_project_needs_no_key(engine: Engine, tmp_path: Path) -> None:
    for one in engine.documents:
        command = one["Config"]["Cmd"] or []
        one["Config"]["Cmd"] = [word for at, word in enumerate(command) if not is_of_key(command, at)]
    assert "ZENIT_KEY" not in ComposeServers("zenit", str(tmp_path)).environ()
    assert not list(tmp_path.iterdir())


def is_of_key(command: list[str], at: int) -> bool:
    return any("security.key=" in word for word in command[at : at + (2 if command[at] == "--set" else 1)])


@pytest.mark.parametrize(
    ("deed", "names", "begun_by", "mended_by"),
    [
        (
            Deed.KILL,
            ["broker-a-2", "broker-a-1"],
            ["kill broker-a-2 broker-a-1", "wait broker-a-2 broker-a-1"],
            ["start broker-a-1 broker-a-2"],
        ),
        (Deed.STOP, ["broker-a-1"], ["stop -t 30 broker-a-1"], ["start broker-a-1"]),
        (Deed.PAUSE, ["broker-a-1"], ["pause broker-a-1"], ["unpause broker-a-1"]),
        (Deed.SLOW, ["broker-a-1"], ["pause broker-a-1"], ["unpause broker-a-1"]),
        (
            Deed.WIPE,
            ["broker-a-1"],
            [
                "kill broker-a-1",
                "wait broker-a-1",
                WIPING,
            ],
            ["start broker-a-1"],
        ),
        (
            Deed.CUT_BOTH,
            ["broker-a-1"],
            ["network disconnect zenit_default broker-a-1"],
            ["network connect --alias broker-a-1 zenit_default broker-a-1"],
        ),
    ],
)
def test_a_fault_is_applied_and_mended(
    engine: Engine, servers: ComposeServers, deed: Deed, names: list[str], begun_by: list[str], mended_by: list[str]
) -> None:
    cluster = DrilledCluster(servers, replicas=3, groups=2)
    targets = named(servers, *names)
    with begun(cluster, Fault(deed, Whom.MASTER, 0), targets, Tools()):
        assert engine.done == begun_by
        assert all(servers.is_running(one) == (deed not in {Deed.KILL, Deed.STOP, Deed.WIPE}) for one in targets)
        if deed is Deed.CUT_BOTH:
            of(engine.documents, "broker-a-1")["NetworkSettings"]["Networks"].clear()
    assert engine.done == begun_by + mended_by
    assert all(map(servers.is_running, targets))


@pytest.mark.parametrize("deed", [Deed.CUT_IN, Deed.CUT_LINKS, Deed.POWER_CUT, Deed.ROT, Deed.HANG, Deed.SET_BACK])
def test_what_an_engine_cannot_do_is_not_done(engine: Engine, servers: ComposeServers, deed: Deed) -> None:
    cluster = DrilledCluster(servers, replicas=3, groups=2)
    fault = Fault(deed, Whom.MASTER, 0)
    with pytest.raises(InvalidParameter), begun(cluster, fault, named(servers, "broker-a-1"), Tools()):
        pass
    assert not engine.done


def test_a_fault_that_fails_half_way_is_mended(engine: Engine, servers: ComposeServers) -> None:
    engine.failing.append("wait")
    cluster = DrilledCluster(servers, replicas=3, groups=2)
    with (
        pytest.raises(SystemFault),
        begun(cluster, Fault(Deed.KILL, Whom.MASTER, 0), named(servers, "broker-a-1"), Tools()),
    ):
        pass
    assert engine.done == ["kill broker-a-1", "start broker-a-1"]


def test_an_engine_that_fails_to_freeze_is_asked_again(engine: Engine, servers: ComposeServers) -> None:
    engine.failing += ["pause", "pause"]
    servers.pause(named(servers, "broker-a-1", "broker-a-2"))
    assert engine.done == ["pause broker-a-1 broker-a-2"]


def test_one_that_has_ended_is_not_paused(engine: Engine, servers: ComposeServers) -> None:
    engine.failing.append("pause")
    of(engine.documents, "broker-a-1")["State"]["Status"] = "exited"
    servers.pause(named(servers, "broker-a-1"))
    assert not engine.done


def test_an_engine_that_does_not_freeze_at_all_is_told(
    engine: Engine, servers: ComposeServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compose_servers, "FREEZE_MS", 0)
    engine.failing.append("pause")
    with pytest.raises(SystemFault, match="docker pause: it does not"):
        servers.pause(named(servers, "broker-a-1"))


def test_a_store_that_no_volume_holds_is_not_wiped(engine: Engine, tmp_path: Path) -> None:
    of(engine.documents, "broker-a-1")["Mounts"].pop()
    servers = ComposeServers("zenit", str(tmp_path))
    with pytest.raises(InvalidParameter, match="a broker with its store in a volume"):
        servers.wipe(named(servers, "broker-a-1")[0])


def test_the_missing_key_is_told_in_a_line(engine: Engine, tmp_path: Path) -> None:
    engine.failing.append("cp")
    with pytest.raises(InvalidParameter, match=r"key = '/etc/zenit/admin.key': expected .* zenit key cluster"):
        ComposeServers("zenit", str(tmp_path))


def test_an_engine_that_does_not_answer_is_told_in_a_line(engine: Engine, tmp_path: Path) -> None:
    engine.failing.append("ps")
    with pytest.raises(RequirementMissing, match="an engine of containers that answers not found; docker ps"):
        ComposeServers("zenit", str(tmp_path))


def test_what_the_containers_said_is_kept(engine: Engine, servers: ComposeServers, tmp_path: Path) -> None:
    servers.keep_logs(str(tmp_path))
    assert len(list(tmp_path.glob("*.log"))) == 14
    assert engine.done[0].startswith("logs --timestamps --since ")
