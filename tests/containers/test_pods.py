"""The Helm chart's pods, run by Docker as they are rendered: arguments, environment, user, volumes, probes, end.

Docker stands in for the kubelet: it gives each pod an address, and files of a Secret the owner and mode that the kubelet gives.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from containers.container_cluster import wait_until
from containers.engine import COMMAND_S, ROOT, run_docker
from grpc_kit import Caller, send_of
from unit.deploy.test_helm_chart import HELM, environment_of, pods, rendered

from zenitmq import FIRST, Admin, Message, Producer, PullConsumer
from zenitmq.client.connection.client_keys import forget_key, remember_key
from zenitmq.proxy.v2.status import Code
from zenitmq.remoting.addresses import add_detours, remove_detours
from zenitmq.testing.local_cluster import SMALL_STORE

SETTINGS = (
    "zookeeper={zookeeper-0:2181}",
    "nameServers.replicas=1",
    "controllers.replicas=1",
    "proxies.replicas=1",
    *("brokers.settings." + setting.replace("store.", "store\\.", 1) for setting in SMALL_STORE),
)
NAMESRV = "mq-namesrv-0.mq-namesrv.shop.svc.cluster.local:9876"
ADDRESS_PORTS = (9876, 9877, 9878, 10911)

pytestmark = pytest.mark.skipif(
    not HELM.exists(), reason="helm is not there: python -m tests.helm_binary .venv/bin/helm"
)


class Pod:
    """A container that is what a pod's specification says."""

    def __init__(self, name: str, spec: dict[str, Any], network: str, keys: Path, started: ExitStack) -> None:
        (self.spec,) = spec["containers"]
        self.name, self.grace_s = name, int(spec["terminationGracePeriodSeconds"])
        self.host = f"{name}.{name.rpartition('-')[0]}.shop.svc.cluster.local"
        self.container = f"{network}-{name}"
        run_docker("create", "--name", self.container, *self._options(spec, network, keys, started), *self.spec["args"])
        started.callback(run_docker, "rm", "--force", "--volumes", self.container, check=False)
        run_docker("start", self.container)
        (facts,) = json.loads(run_docker("inspect", self.container).stdout)
        self.address = facts["NetworkSettings"]["Networks"][network]["IPAddress"]

    def probe(self, kind: str) -> str:
        """What the probe is answered; "" if it fails."""
        asked = self.spec[kind]["httpGet"]
        port = next(port["containerPort"] for port in self.spec["ports"] if port["name"] == asked["port"])
        with suppress(OSError, http.client.HTTPException), ExitStack() as opened:
            connection = http.client.HTTPConnection(self.address, port, timeout=5)
            opened.callback(connection.close)
            connection.request("GET", asked["path"])
            reply = connection.getresponse()
            return reply.read().decode().strip() if reply.status == http.client.OK else ""
        return ""

    def end(self) -> int:
        """As the kubelet ends it; returns its exit code."""
        run_docker("stop", "--time", str(self.grace_s), self.container)
        return int(json.loads(run_docker("inspect", self.container).stdout)[0]["State"]["ExitCode"])

    def _options(self, spec: dict[str, Any], network: str, keys: Path, started: ExitStack) -> Iterator[str]:
        of_pod, of_container = spec["securityContext"], self.spec["securityContext"]
        yield from ("--network", network, "--network-alias", self.host)  # no init: the server is process 1
        yield from ("--user", f"{of_pod['runAsUser']}:{of_pod['runAsGroup']}", "--group-add", str(of_pod["fsGroup"]))
        if of_container["readOnlyRootFilesystem"]:
            yield "--read-only"
        if not of_container["allowPrivilegeEscalation"]:
            yield from ("--security-opt", "no-new-privileges")
        for capability in of_container["capabilities"]["drop"]:
            yield from ("--cap-drop", capability)
        environment = environment_of(self.name, self.spec)
        for mount in self.spec["volumeMounts"]:
            if mount["name"] == "tmp":
                yield from ("--tmpfs", mount["mountPath"])
                continue
            if mount["name"] == "store":
                source = f"{self.container}-store"
                run_docker("volume", "create", source)
                started.callback(run_docker, "volume", "rm", "--force", source)
                # As the kubelet prepares a volume: root's, and writable for the group of the pod.
                script = f"chown 0:{of_pod['fsGroup']} /volume && chmod 2775 /volume"
                prepare = ("--user", "0", "--entrypoint", "sh", "--volume", f"{source}:/volume:nocopy")
                run_docker("run", "--rm", *prepare, self.spec["image"], "-c", script)
            else:
                expression = mount.get("subPathExpr", "").replace("$(POD_NAME)", self.name)
                source = str(keys / mount["name"] / expression)
            yield from ("--volume", f"{source}:{mount['mountPath']}:{'ro' if mount.get('readOnly') else 'nocopy'}")
        for key, value in environment.items():
            # The address that an engine gives is known when the container runs; there it is what `auto` finds.
            yield from ("--env", f"{key}={'auto' if key == 'ZENIT_BROKER__HOST' else value}")
        yield self.spec["image"]


def secret(directory: Path, group: int) -> None:
    """Two volumes of the Secret that make_keys.sh prints, with the owner and mode that the kubelet gives its files."""
    made = directory.parent / "made"
    environment = os.environ | {
        "ZENIT_BIN": str(ROOT / ".venv" / "bin" / "zenit"),
        "NAME_SERVERS": "1",
        "CONTROLLERS": "1",
        "PROXIES": "1",
    }
    command = [ROOT / "deploy" / "helm" / "make_keys.sh", "mq", "shop", made]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    assert done.returncode == 0, done.stderr
    files = [Path(word.partition("--from-file=")[2]) for word in done.stdout.split() if "--from-file=" in word]
    for volume, chosen in (("keys", files), ("trusted", [file for file in files if file.suffix != ".key"])):
        (directory / volume).mkdir(parents=True)
        for file in chosen:
            mounted = directory / volume / file.name
            mounted.write_bytes(file.read_bytes())
            os.chown(mounted, 0, group)
            mounted.chmod(0o440)


@pytest.fixture
def running(image: str, zookeeper_image: str, tmp_path: Path) -> Iterator[list[Pod]]:
    """All pods of the chart, the first of each set first."""
    if os.getuid():
        pytest.skip("only root can give files of a Secret the owner that the kubelet gives them")
    repository, _, tag = image.rpartition(":")
    settings = (*SETTINGS, f"image.repository={repository}", f"image.tag={tag}")
    network, keys = f"zenit-{secrets.token_hex(4)}", tmp_path / "volumes"
    with ExitStack() as started:
        run_docker("network", "create", network)
        started.callback(run_docker, "network", "rm", network)
        name = f"{network}-zookeeper"
        run_docker(
            "run", "--detach", "--name", name, "--network", network, "--network-alias", "zookeeper-0", zookeeper_image
        )
        started.callback(run_docker, "rm", "--force", "--volumes", name)
        found = list(pods(rendered(*settings)))
        secret(keys, found[0][1]["securityContext"]["fsGroup"])
        made = []
        for first, spec in found:
            count = 3 if spec["containers"][0]["args"] == ["broker"] else 1
            for number in range(count):
                made.append(Pod(f"{first.removesuffix('-0')}-{number}", spec, network, keys, started))
        detours = {f"{pod.host}:{port}": f"{pod.address}:{port}" for pod in made for port in ADDRESS_PORTS}
        add_detours(detours)
        started.callback(remove_detours, detours)
        remember_key((NAMESRV,), str(tmp_path / "made" / "admin.key"))
        started.callback(forget_key, (NAMESRV,))
        yield made


def test_pods_as_rendered_form_a_secured_group_that_hands_over(running: list[Pod]) -> None:
    brokers = [pod for pod in running if pod.spec["args"] == ["broker"]]

    def all_ready() -> bool:
        return all(pod.probe(kind) for pod in running for kind in ("startupProbe", "livenessProbe", "readinessProbe"))

    def masters() -> list[Pod]:
        return [pod for pod in brokers if pod.probe("readinessProbe") == "ready: master"]

    try:
        wait_until(all_ready, "each probe of each pod succeeds")
    except AssertionError as error:
        for pod in running:
            error.add_note(f"{pod.name}: {run_docker('logs', '--tail', '3', pod.container, check=False).stderr}")
        raise
    with Admin(NAMESRV) as admin:
        admin.create_topic("orders", queues=1)
    with Producer(namesrv=NAMESRV) as producer:
        producer.send(Message("orders", b"before"))
        (master,) = masters()
        assert master.end() in (0, 143), "it hands over and ends within its grace period"
        wait_until(masters, "another pod leads")
        producer.send(Message("orders", b"after"), timeout=30.0)
    (proxy,) = [pod for pod in running if pod.spec["args"] == ["proxy"]]
    with grpc.insecure_channel(f"{proxy.address}:8081") as channel:
        assert Caller(channel).ask("SendMessage", send_of("orders", b"x")).status.code == Code.UNAUTHORIZED
    assert proxy.end() == 0
    with PullConsumer("readers", namesrv=NAMESRV, start_from=FIRST) as consumer:
        consumer.subscribe("orders")
        got: list[bytes] = []
        while len(got) < 2 and (polled := consumer.poll(timeout=20.0)):
            got += [bytes(message.body) for message in polled]
    assert got == [b"before", b"after"]
