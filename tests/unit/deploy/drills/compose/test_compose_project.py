"""A compose project as drills see it: who its servers are, where they are reached, and what is refused in a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from unit.deploy.drills.compose.inspected import document, inspected, of

from zenitmq.deploy.drills.compose.project import ComposeProject, project_of
from zenitmq.model.errors import ConfigError, InvalidParameter

Change = Callable[[list[dict[str, Any]]], object]


def project(*changes: Change) -> ComposeProject:
    documents = inspected()
    for change in changes:
        change(documents)
    return project_of("zenit", documents)


def test_the_servers_of_the_file_are_found_in_the_order_of_a_start() -> None:
    found = project()
    found.check()
    roles = ("zookeeper-1 zookeeper-2 zookeeper-3 namesrv-1 namesrv-2 controller-1 controller-2 controller-3").split()
    brokers = [f"broker-{group}-{number}" for group in "ab" for number in (1, 2, 3)]
    assert [server.name for server in found.servers] == roles + brokers
    assert {name: [one.name for one in group] for name, group in found.groups.items()} == {
        "broker-a": brokers[:3],
        "broker-b": brokers[3:],
    }
    by_name = {server.name: server for server in found.servers}
    assert by_name["namesrv-2"].address == "namesrv-2:9876"
    assert by_name["controller-3"].address == "controller-3:9878"
    assert by_name["broker-b-2"].address == "broker-b-2:10911"
    assert by_name["broker-b-2"].group == "broker-b"
    assert by_name["broker-b-2"].store_dir == "/var/lib/zenit/store"
    assert by_name["broker-b-2"].key == "/etc/zenit/broker-b-2.key"
    assert by_name["broker-b-2"].networks == {"zenit_default": ("broker-b-2",)}


def test_the_file_publishes_each_server_at_a_port_of_its_own() -> None:
    detours = {told: there for server in project().servers for told, there in server.detours.items()}
    assert len(set(detours.values())) == len(detours) == 2 * 2 + 3 + 6
    assert detours["namesrv-1:9877"] == "127.0.0.1:19877"
    assert detours["broker-b-3:10911"] == "127.0.0.1:19923"


def test_containers_of_one_command_are_no_servers() -> None:
    one_off = document("broker-a-1", {"command": "broker"})
    one_off["Config"]["Labels"]["com.docker.compose.oneoff"] = "True"
    assert project(lambda documents: documents.append(one_off)) == project()


def test_a_port_published_everywhere_is_reached_here() -> None:
    def publish(documents: list[dict[str, Any]]) -> None:
        of(documents, "broker-a-1")["HostConfig"]["PortBindings"]["10911/tcp"][0]["HostIp"] = ""

    (broker,) = (one for one in project(publish).servers if one.name == "broker-a-1")
    assert broker.detours == {"broker-a-1:10911": "127.0.0.1:19911"}


def test_a_store_in_no_volume_is_none_that_can_be_wiped() -> None:
    (broker, *_) = project(lambda documents: of(documents, "broker-a-1")["Mounts"].pop()).groups["broker-a"]
    assert broker.store_dir == ""


def unpublished(documents: list[dict[str, Any]]) -> None:
    of(documents, "broker-a-2")["HostConfig"]["PortBindings"] = None


def published_anywhere(documents: list[dict[str, Any]]) -> None:
    of(documents, "namesrv-1")["HostConfig"]["PortBindings"]["9877/tcp"][0]["HostPort"] = ""


@pytest.mark.parametrize("change", [unpublished, published_anywhere])
def test_a_server_that_is_not_reached_from_here_is_refused(change: Change) -> None:
    with pytest.raises(InvalidParameter, match=r"port = '(10911 of broker-a-2|9877 of namesrv-1)'.*compose\.yaml"):
        project(change)


def test_settings_that_no_server_has_are_refused() -> None:
    with pytest.raises(ConfigError, match="colour"):
        project(lambda documents: of(documents, "broker-a-1")["Config"]["Cmd"].extend(["--set", "colour=red"]))


def lone(documents: list[dict[str, Any]], prefix: str) -> None:
    documents[:] = [
        one for one in documents if not one["Config"]["Labels"]["com.docker.compose.service"].startswith(prefix)
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda documents: lone(documents, ""), "that is up, with a namesrv: docker compose -p zenit up -d"),
        (lambda documents: lone(documents, "broker"), "that is up, with a broker"),
        (lambda documents: lone(documents, "controller"), "that is up, with a controller"),
        (lambda documents: lone(documents, "broker-b-1"), "the same size; broker-a has 3, broker-b has 2"),
        (lambda documents: of(documents, "broker-b-1")["State"].update(Status="paused"), "broker-b-1 is paused"),
        (lambda documents: of(documents, "broker-b-1")["NetworkSettings"]["Networks"].clear(), "b-1 has no network"),
        (lambda documents: documents.append(of(documents, "namesrv-1")), "several are namesrv-1"),
    ],
)
def test_a_project_that_no_drill_can_be_done_to_is_refused_in_a_line(change: Change, told: str) -> None:
    with pytest.raises(InvalidParameter, match="--compose = 'zenit'") as refused:
        project(change).check()
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
