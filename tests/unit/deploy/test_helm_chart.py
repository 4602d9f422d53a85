"""The Helm chart: helm finds no fault, three versions of Kubernetes take what it renders, and so do the servers."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from zenitmq.broker.config import BrokerConfig
from zenitmq.controller.config import ControllerConfig
from zenitmq.deploy.cluster_keys import GATEWAY
from zenitmq.model.config import load_config
from zenitmq.namesrv.config import NameServerConfig
from zenitmq.proxy.config import ProxyConfig
from zenitmq.remoting.security.key_file import read_key_file
from zenitmq.remoting.security.opened_security import read_trusted

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "helm" / "zenit"
HELM = ROOT / ".venv" / "bin" / "helm"
VERSIONS = ("1.28", "1.33", "1.37")
OF_OTHERS = {"ServiceMonitor"}  # not Kubernetes' own: its operator defines it
SERVERS = "zookeeper={zk-0.zk:2181,zk-1.zk:2181}"
ROLES: dict[str, Any] = {
    "namesrv": NameServerConfig,
    "broker": BrokerConfig,
    "controller": ControllerConfig,
    "proxy": ProxyConfig,
}
SETTINGS: dict[str, tuple[str, ...]] = {
    "as it comes": (),
    "open, soft, two groups": (
        *("security.enabled=false", "antiAffinity=soft", "brokers.groups={broker-a,broker-b}"),
        *("networkPolicy.enabled=false", "serviceMonitor.enabled=true", "serviceMonitor.labels.release=prometheus"),
        *("nodeSelector.disk=ssd", "tolerations[0].key=mq", "tolerations[0].operator=Exists", "priorityClassName=high"),
        *("brokers.storage.className=fast", "image.pullSecrets[0].name=registry", "podAnnotations.team=mq"),
        r"brokers.settings.store\.retention_bytes=53687091200",
        *("brokers.settings.clients_max=20000", r"brokers.settings.store\.disk_force_ratio=0.8"),
        "networkPolicy.clients[0].namespaceSelector.matchLabels.team=shop",
    ),
    "with proxies": ("proxies.replicas=2", "proxies.tlsSecret=mq-tls", "proxies.settings.processes=2"),
    "with a login for ZooKeeper": ("security.zookeeperLoginSecret=zk-login", "controllers.replicas=1"),
}

pytestmark = pytest.mark.skipif(
    not HELM.exists(), reason="helm is not there: python -m tests.helm_binary .venv/bin/helm"
)


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(HELM), *arguments], capture_output=True, text=True, check=False, timeout=60)


def rendered(*settings: str) -> list[dict[str, Any]]:
    given = [text for setting in (SERVERS, *settings) for text in ("--set", setting)]
    done = helm("template", "mq", str(CHART), "--namespace", "shop", *given)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def pods(documents: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name of its first pod, specification of the pod) of each StatefulSet."""
    for document in documents:
        if document["kind"] == "StatefulSet":
            yield f"{document['metadata']['name']}-0", document["spec"]["template"]["spec"]


def environment_of(pod: str, container: dict[str, Any]) -> dict[str, str]:
    """As the kubelet makes it: $(NAME) of a variable before it is replaced."""
    found = {"POD_NAME": pod, "POD_IP": "10.1.2.3"}
    for variable in container["env"]:
        if "value" in variable:
            value = re.sub(r"\$\((\w+)\)", lambda name: found[name.group(1)], variable["value"])
            found[variable["name"]] = value
    return found


def test_helm_finds_no_fault() -> None:
    done = helm("lint", "--strict", str(CHART), "--set", SERVERS)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_kubernetes_takes_what_it_renders(settings: tuple[str, ...]) -> None:
    documents = rendered(*settings)
    for version in VERSIONS:
        for document in documents:
            if document["kind"] not in OF_OTHERS:
                kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_servers_take_their_settings_and_only_what_they_need(settings: tuple[str, ...]) -> None:
    for pod, spec in pods(rendered(*settings)):
        (container,) = spec["containers"]
        (role,) = container["args"]
        config = load_config(ROLES[role], role, environ=environment_of(pod, container))
        assert config.metrics.bind == "0.0.0.0:9880"
        key = config.key if role == "proxy" else config.security.key
        assert bool(key) == ("security.enabled=false" not in settings)
        assert spec["securityContext"]["runAsNonRoot"]
        assert not spec["automountServiceAccountToken"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        volumes = {volume["name"] for volume in spec["volumes"]} | ({"store"} if role == "broker" else set())
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_each_server_finds_the_others_by_names_that_stay() -> None:
    found = {pod: environment_of(pod, spec["containers"][0]) for pod, spec in pods(rendered())}
    broker = load_config(BrokerConfig, "broker", environ=found["mq-broker-a-0"])
    assert broker.address_at(broker.port) == "mq-broker-a-0.mq-broker-a.shop.svc.cluster.local:10911"
    assert (broker.host, broker.listen_host, broker.replica_name) == ("10.1.2.3", "0.0.0.0", "mq-broker-a-0")
    assert broker.namesrv == tuple(f"mq-namesrv-{n}.mq-namesrv.shop.svc.cluster.local:9876" for n in range(2))
    assert broker.controllers == tuple(f"mq-controller-{n}.mq-controller.shop.svc.cluster.local:9878" for n in range(3))
    controller = load_config(ControllerConfig, "controller", environ=found["mq-controller-0"])
    assert f"{controller.host}:{controller.port}" == broker.controllers[0]
    assert controller.zookeeper == ("zk-0.zk:2181", "zk-1.zk:2181")


def test_a_proxy_is_told_its_own_name_and_no_secret_but_its_own() -> None:
    documents = rendered(*SETTINGS["with proxies"])
    ((pod, spec),) = [found for found in pods(documents) if found[1]["containers"][0]["args"] == ["proxy"]]
    (container,) = spec["containers"]
    proxy = load_config(ProxyConfig, "proxy", environ=environment_of(pod, container))
    assert (proxy.host, proxy.bound_host) == ("mq-proxy-0.mq-proxy.shop.svc.cluster.local", "0.0.0.0")
    assert proxy.namesrv == tuple(f"mq-namesrv-{n}.mq-namesrv.shop.svc.cluster.local:9876" for n in range(2))
    assert (proxy.processes, proxy.tls_port, proxy.tls_key) == (2, 8443, "/etc/zenit/tls/tls.key")
    assert proxy.drain_ms < spec["terminationGracePeriodSeconds"] * 1000
    mounted = {mount["mountPath"]: mount.get("subPathExpr") for mount in container["volumeMounts"]}
    assert mounted == {"/tmp": None, "/etc/zenit/tls": None, "/etc/zenit/key": "$(POD_NAME).key"}
    (policy,) = [document for document in documents if document["kind"] == "NetworkPolicy"]
    opened = [port for rule in policy["spec"]["ingress"] for port in rule.get("ports", ())]
    reached = {port for each in opened for port in range(each["port"], each.get("endPort", each["port"]) + 1)}
    assert {proxy.port, proxy.tls_port, proxy.remoting_port, proxy.broker_port, proxy.broker_port - 2} <= reached
    assert 10912 not in reached, "the replication port is for the release's own pods"
    (service,) = [
        document
        for document in documents
        if document["kind"] == "Service" and document["metadata"]["name"] == "mq-proxy"
    ]
    assert not service["spec"]["publishNotReadyAddresses"], "clients find proxies that serve"


def test_settings_reach_the_broker() -> None:
    documents = rendered(*SETTINGS["open, soft, two groups"])
    for pod, spec in pods(documents):
        if spec["containers"][0]["args"] == ["broker"]:
            config = load_config(BrokerConfig, "broker", environ=environment_of(pod, spec["containers"][0]))
            assert (config.store.retention_bytes, config.clients_max, config.store.disk_force_ratio) == (
                50 << 30,
                20_000,
                0.8,
            )


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("brokers.replcas=3", "additional properties 'replcas' not allowed"),
        ("brokers.replicas=0", "minimum: got 0, want 1"),
        ("zookeeper={zk}", "does not match pattern"),
        ("brokers.groups={namesrv}", "/brokers/groups/0"),
        ("zookeeper=null", "name the servers of your ensemble"),
        ("antiAffinity=none", "/antiAffinity"),
    ],
)
def test_wrong_values_are_refused(setting: str, says: str) -> None:
    done = helm("template", "mq", str(CHART), "--set", SERVERS, "--set", setting)
    assert done.returncode
    assert says in done.stderr


def test_the_script_makes_a_key_for_each_pod(tmp_path: Path) -> None:
    script, directory = ROOT / "deploy" / "helm" / "make_keys.sh", tmp_path / "keys"
    environment = {
        **os.environ,
        "ZENIT_BIN": str(ROOT / ".venv" / "bin" / "zenit"),
        "CONTROLLERS": "1",
        "REPLICAS": "2",
        "PROXIES": "1",
    }
    command = [str(script), "mq", "shop", str(directory)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    made = {path.stem: read_key_file(str(path)) for path in directory.glob("*.key")}
    pods_of_it = {"mq-namesrv-0", "mq-namesrv-1", "mq-controller-0", "mq-broker-a-0", "mq-broker-a-1", "mq-proxy-0"}
    assert made.keys() == pods_of_it | {"admin"}
    trusted = {row.user.name: row for row in read_trusted(str(directory / "trusted.toml"))}
    assert {name: row.user.keys for name, row in trusted.items()} == {n: (key.pair.public,) for n, key in made.items()}
    reached = {f"mq-namesrv-{n}.mq-namesrv.shop.svc.cluster.local:9876" for n in range(2)}
    assert set(made["admin"].servers) == reached | {"mq-controller-0.mq-controller.shop.svc.cluster.local:9878"}
    assert "admin.key" not in done.stdout
    assert "--from-file=" + str(directory / "mq-broker-a-1.key") in done.stdout
    assert "--from-file=" + str(directory / "users.secrets") in done.stdout
    assert trusted["mq-proxy-0"].user.rules == (GATEWAY,), "it may act for others, and nothing else"
    binding = trusted["mq-broker-a-1"].user.binding
    assert binding is not None
    assert (binding.cluster, binding.group, binding.replica) == ("zenit", "broker-a", "mq-broker-a-1")
    more = subprocess.run(
        command, env=environment | {"REPLICAS": "3"}, capture_output=True, text=True, check=False, timeout=60
    )
    assert more.returncode == 0, more.stderr
    assert "mq-broker-a-2.key" in more.stdout
    kept = read_key_file(str(directory / "mq-broker-a-1.key"))
    assert kept.pair.public == made["mq-broker-a-1"].pair.public


def test_the_schema_knows_every_value() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert values.keys() == schema["properties"].keys() - {"global"}
