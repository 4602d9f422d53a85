"""The record of a local cluster, DIR/cluster.json, with which `down`, `status` and the next `up` find its processes.

    {"cluster": "zenit", "cluster_id": "9f1c2b3a4d5e6f70", "namesrv": "127.0.0.1:9876", "processes": [
       {"role": "namesrv", "name": "namesrv-1", "pid": 71, "birth": "4711", "address": "127.0.0.1:9876"},
       {"role": "broker", "name": "broker-a", "pid": 72, "birth": "4712", "address": "127.0.0.1:10911",
        "store_dir": "/tmp/z/broker-a", "settings": ["store.segment_bytes=65536"]}]}

With replicas there are more fields: {"shape": {"replicas": 3, "groups": 1, "controllers": 1, "zookeeper": ""}, "zookeeper":
"127.0.0.1:2181"}, processes of the roles zookeeper and controller, and the "group" of each replica. With "controllers": 0
there are neither: the first replica of each group is its static master. "keys": the directory with the keys of a secured one.

`birth` is the start time of a process, in the machine's own format: a pid is reused, a pid with its birth is not. Pure:
`processes.py` inspects processes, `local_cluster.py` reads and writes the file.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Final

from ..model.errors import StoreFormatError

FILE_NAME: Final = "cluster.json"
RECORD_BYTES_MAX: Final = 1 << 20

NAME_SERVER: Final = "namesrv"
ZOOKEEPER: Final = "zookeeper"
CONTROLLER: Final = "controller"
BROKER: Final = "broker"
PROXY: Final = "proxy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The requested shape of a cluster: `replicas` of each of `groups`. With one replica there is no controller.

    `controllers`: 0 = a static master in each group. `zookeeper`: an existing one, host:port; "" = the cluster's own.
    """

    replicas: int = 1
    groups: int = 1
    controllers: int = 1
    zookeeper: str = ""

    @property
    def is_replicated(self) -> bool:
        """True if a broker is one of several in its group."""
        return self.replicas > 1

    @property
    def has_controllers(self) -> bool:
        """True if controllers elect the masters."""
        return self.is_replicated and self.controllers > 0

    @property
    def has_static_masters(self) -> bool:
        """True if the first replica of each group is always its master."""
        return self.is_replicated and not self.controllers

    @property
    def min_in_sync(self) -> int:
        """Replicas that must have a message: with two, one may be down and writes continue."""
        return 2 if self.replicas > 2 else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRecord:
    """One server of a cluster, wherever it runs. `group`: the broker name, if it is one of several replicas."""

    role: str
    name: str
    address: str
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord(ServerRecord):
    """One process of a local cluster. `store_dir`: None for roles that store nothing; `settings`: in the form for `--set`.

    `pid` 0: not started yet. `metrics`: "host:port" of its metrics and health, "" if it serves none. `remoting`: of a proxy,
    "host:port" for clients of that protocol; its `address` is for gRPC.
    """

    pid: int = 0
    birth: str = ""
    store_dir: str | None = None
    settings: tuple[str, ...] = ()
    metrics: str = ""
    remoting: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord:
    """A cluster of local processes, in the order of their start.

    `zookeeper`: its address, "" if there is none. `cluster_id`: created at the first start. `keys`: the directory with its
    keys, "" if it is not secured.
    """

    cluster: str
    namesrv: str
    processes: tuple[ProcessRecord, ...] = ()
    zookeeper: str = ""
    shape: Shape = Shape()
    cluster_id: str = ""
    keys: str = ""

    def find(self, role: str, name: str) -> ProcessRecord | None:
        """The process of that role and name, or None."""
        return next((p for p in self.processes if (p.role, p.name) == (role, name)), None)

    def of_role(self, role: str) -> tuple[ProcessRecord, ...]:
        """All processes of a role, in the order of their start."""
        return tuple(process for process in self.processes if process.role == role)

    def with_process(self, process: ProcessRecord) -> ClusterRecord:
        """The record with `process` in place of one of its role and name, or at the end."""
        if self.find(process.role, process.name) is None:
            return replace(self, processes=(*self.processes, process))
        kept = tuple(process if (p.role, p.name) == (process.role, process.name) else p for p in self.processes)
        return replace(self, processes=kept)


def encode_record(record: ClusterRecord) -> str:
    """The text of DIR/cluster.json."""
    processes = []
    for process in record.processes:
        document: dict[str, object] = {
            "role": process.role,
            "name": process.name,
            "pid": process.pid,
            "birth": process.birth,
            "address": process.address,
        }
        if process.store_dir is not None:
            document["store_dir"] = process.store_dir
        if process.settings:
            document["settings"] = list(process.settings)
        if process.group is not None:
            document["group"] = process.group
        if process.metrics:
            document["metrics"] = process.metrics
        if process.remoting:
            document["remoting"] = process.remoting
        processes.append(document)
    document = {"cluster": record.cluster, "cluster_id": record.cluster_id, "namesrv": record.namesrv}
    if record.keys:
        document["keys"] = record.keys
    document["processes"] = processes
    if record.shape != Shape():
        document |= {"zookeeper": record.zookeeper, "shape": asdict(record.shape)}
    return json.dumps(document, indent=2) + "\n"


def decode_record(text: str, path: str) -> ClusterRecord:
    """Decodes it. Raises StoreFormatError naming `path` if the text is not such a record."""
    try:
        document = json.loads(text)
        processes = tuple(
            ProcessRecord(
                role=str(entry["role"]),
                name=str(entry["name"]),
                pid=int(entry["pid"]),
                birth=str(entry["birth"]),
                address=str(entry["address"]),
                store_dir=entry.get("store_dir"),
                settings=tuple(str(setting) for setting in entry.get("settings", ())),
                group=entry.get("group"),
                metrics=str(entry.get("metrics", "")),
                remoting=str(entry.get("remoting", "")),
            )
            for entry in document["processes"]
        )
        if any(process.pid <= 1 for process in processes):
            raise ValueError("a pid of 1 or below")
        return ClusterRecord(
            cluster=str(document["cluster"]),
            namesrv=str(document["namesrv"]),
            cluster_id=str(document.get("cluster_id", "")),
            keys=str(document.get("keys", "")),
            processes=processes,
            zookeeper=str(document.get("zookeeper", "")),
            shape=Shape(**document.get("shape", {})),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise StoreFormatError(path, f"it is not a cluster record ({type(error).__name__}: {error})") from error
