"""Takes the scrapes on which alerts are tried, from a drill with three replicas and a proxy:
`PYTHONPATH=tests python -m tests.take_scrapes`.

A file is what Prometheus would have at that moment: of every process the families that an alert names, with job and instance,
and `up`. It takes a minute.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from classic_kit import BareClient, RemotingProcess

from zenitmq import Admin, Message, Producer, PushConsumer
from zenitmq.client.connection.controller_calls import ControllerCalls
from zenitmq.deploy.backup.backup import Backup, BackupRules
from zenitmq.deploy.backup.directory_target import DirectoryTarget
from zenitmq.deploy.backup.following import Following
from zenitmq.deploy.backup.log_source import BackupSource
from zenitmq.deploy.canary import Canary
from zenitmq.deploy.cluster_plan import arguments_of
from zenitmq.deploy.local_cluster import ProcessCluster
from zenitmq.metrics.alert import families_in
from zenitmq.metrics.alerts import ALERTS
from zenitmq.metrics.config import MetricsConfig
from zenitmq.metrics.endpoint import MetricsEndpoint
from zenitmq.remoting.client import RemotingClient
from zenitmq.testing import LocalCluster

from .scrape_kit import Scrape

SCRAPES = Path(__file__).parent / "unit" / "metrics" / "scrapes"
WANTED = {name for alert in ALERTS for name in families_in(alert.expression)} | {"up"}
LINE = re.compile(r"^(?P<name>[a-z_]+)\{(?P<labels>.*)\} (?P<value>\S+)$")


def take(name: str, ports: dict[str, tuple[str, str]]) -> None:
    """`ports`: {instance: (job, "host:port")}."""
    lines = []
    for instance, (job, address) in sorted(ports.items()):
        told = f'job="{job}",instance="{instance}"'
        try:
            _, text = Scrape.page(address, "/metrics")
        except OSError:
            lines.append(f"up{{{told}}} 0")
            continue
        lines.append(f"up{{{told}}} 1")
        for line in text.splitlines():
            found = LINE.match(line)
            if found and families_in(found["name"]) & WANTED and not found["name"].endswith(("_sum", "_count")):
                lines.append(f"{found['name']}{{{told},{found['labels']}}} {found['value']}")
    (SCRAPES / f"{name}.txt").write_text("\n".join(sorted(lines)) + "\n", encoding="utf-8")


def main() -> None:
    proxy_metrics = "127.0.0.1:9895"
    with (
        LocalCluster(replicas=3) as cluster,
        RemotingProcess(cluster.namesrv, f"metrics.bind={proxy_metrics}") as proxy,
    ):
        processes = ProcessCluster(cluster.directory).status()["processes"]
        ports = {one["name"]: (f"zenit-{one['role']}", one["metrics"]) for one in processes if "metrics" in one}
        config = MetricsConfig(bind="127.0.0.1:0")
        with (
            tempfile.TemporaryDirectory() as target,
            MetricsEndpoint(config, version="1", kernel="none", has_readiness=False) as endpoint,
            MetricsEndpoint(config, version="1", kernel="none", has_readiness=False) as copied,
            Canary(cluster.namesrv) as canary,
        ):
            store = next(str(one["store_dir"]) for one in processes if one["role"] == "broker")
            backup = Backup(BackupSource(store), DirectoryTarget(target), "broker-a", BackupRules())
            following = Following(backup, cluster="zenit", group="broker-a", target=target, tail_ms=60_000)
            endpoint.serve(canary)
            copied.serve(following)
            beside = [threading.Thread(target=each.run) for each in (canary, following)]
            for thread in beside:
                thread.start()
            told = {"canary": ("zenit-canary", endpoint.address), "backup": ("zenit-backup", copied.address)}
            told["proxy-1"] = "zenit-proxy", proxy_metrics
            drill(cluster, ports | told, proxy.port)
            canary.stop()
            following.stop()
            for thread in beside:
                thread.join(20)


def send_by_proxy(port: int) -> None:
    """One message, or an error."""
    with BareClient(port) as client:
        client.ask(310, b"x", b="trades", e=0, n="broker-a")


def drill(cluster: LocalCluster, ports: dict[str, tuple[str, str]], proxy_port: int) -> None:
    with Admin(cluster.namesrv) as admin, Producer(namesrv=cluster.namesrv) as producer:
        admin.create_topic("trades", queues=2)
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("trades")
        consumer.on_message(lambda _: None)
        with consumer:
            producer.send_batch([Message("trades", b"x")] * 20)
            time.sleep(8)
            send_by_proxy(proxy_port)
            take("healthy", ports)
            take("no-canary", {name: port for name, port in ports.items() if name != "canary"})
        producer.send_batch([Message("trades", b"x")] * 20)
        time.sleep(6)
        take("unread", ports)
        master = cluster.master
        slaves = [name for name in cluster.brokers if name != master]
        cluster.kill(slaves[0])
        time.sleep(7)
        take("one-down", ports)
        cluster.kill(master)
        time.sleep(6)
        take("below-minimum", ports)
        cluster.kill(slaves[1])
        time.sleep(6)
        send_by_proxy(proxy_port)
        take("no-master", ports)
    record = ProcessCluster(cluster.directory).existing()
    lost = next(one for one in record.processes if one.name == slaves[0])
    command = [sys.executable, "-m", "zenitmq", "broker"]
    for setting in arguments_of(record, lost):
        command += ["--set", setting]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process, RemotingClient() as remoting:
        time.sleep(6)
        take("nobody-elected", ports)
        controllers = tuple(one.address for one in record.of_role("controller"))
        ControllerCalls(remoting, controllers).elect("broker-a", slaves[0], force=True, timeout_ms=10_000)
        time.sleep(3)
        take("forced", ports)
        process.terminate()


if __name__ == "__main__":
    main()
