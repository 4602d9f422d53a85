"""The processes of a local cluster, and the settings with which each is started. Pure.

One replica: a name server and one broker per group, which is its own master. More: ZooKeeper and controllers as well, and
the replicas of broker-a are broker-a-1, broker-a-2, ...; each has its store in the directory of its name. Without
controllers broker-a-1 is always the master, and the others get its address, so it starts before them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from ..model.errors import InvalidParameter
from .cluster_record import BROKER, CONTROLLER, NAME_SERVER, PROXY, ZOOKEEPER, ClusterRecord, ProcessRecord, Shape
from .port_choice import (
    BROKER_PORT,
    CONTROLLER_PORT,
    METRICS_PORT,
    NAME_SERVER_PORT,
    PROXY_BROKER_PORT,
    PROXY_PORT,
    ZOOKEEPER_PORT,
    choose_port,
)

HOST: Final = "127.0.0.1"
GROUPS_MAX: Final = 26
REPLICAS_MAX: Final = 9
CONTROLLERS_MAX: Final = 9
DECIDED_HERE: Final = (
    *("cluster", "cluster_id", "name", "host", "namesrv", "store_dir"),
    *("controllers", "replica", "replication_port", "static_master", "metrics.bind"),
)
METRICS_BIND: Final = "metrics.bind"
FLUSH_MODE: Final = "store.flush_mode"
MINIMUM: Final = "static_min_in_sync"
LOGIN_FILE: Final = "zookeeper.login"  # in the directory of the keys
NONE: Final = -1  # no port
PROXY_VARIABLES: Final = "ZENIT_PROXY__"
BROKER_PORT_KEY: Final = "broker_port"
DECIDED_OF_PROXY: Final = frozenset(("namesrv", "host", "port", "remoting_port", "key"))
SECRETS_KEY_FILE: Final = "users.secrets"  # in the directory of the keys
TRUSTED_FILE: Final = "trusted.toml"  # in the directory of the keys


def check_shape(shape: Shape) -> None:
    """Raises InvalidParameter for an impossible shape."""
    for name, count, least, most in (
        ("--replicas", shape.replicas, 1, REPLICAS_MAX),
        ("--groups", shape.groups, 1, GROUPS_MAX),
        ("--controllers", shape.controllers, 0, CONTROLLERS_MAX),
    ):
        if not least <= count <= most:
            raise InvalidParameter(name, count, f"{least} to {most}")
    if not shape.is_replicated and shape.controllers > 1:
        raise InvalidParameter("--controllers", shape.controllers, "1: one replica has no controller")
    if not shape.is_replicated and shape.zookeeper:
        raise InvalidParameter("--zookeeper", shape.zookeeper, "nothing: one replica has no controller")
    if shape.has_static_masters and shape.zookeeper:
        raise InvalidParameter("--zookeeper", shape.zookeeper, "nothing: a static master needs none")


def check_settings(settings: Sequence[str], shape: Shape) -> None:
    """Raises InvalidParameter for a key that `up` decides.

    Several brokers cannot have one port, and a group cannot require more replicas in sync than it has.
    """
    several = shape.replicas * shape.groups > 1
    decided = (*DECIDED_HERE, "port") if several else DECIDED_HERE
    for setting in settings:
        if setting.partition("=")[0].strip() in decided:
            raise InvalidParameter("--set", setting, f"a key that `up` does not decide itself ({', '.join(decided)})")
    minimum = _setting(settings, MINIMUM) or ""
    if shape.has_static_masters and minimum.isdecimal() and int(minimum) > shape.replicas:
        raise InvalidParameter("--set", f"{MINIMUM}={minimum}", f"at most {shape.replicas}, the replicas of a group")


def asked_port(settings: Sequence[str]) -> int | None:
    """The port in `port=N`; such a port is never replaced by another one."""
    text = _setting(settings, "port")
    return int(text) if text is not None and text.isdecimal() and int(text) else None


def plan(
    directory: str,
    record: ClusterRecord,
    settings: Sequence[str],
    namesrv_port: int | None = None,
    *,
    proxy: bool = False,
    environ: Mapping[str, str] = MappingProxyType({}),
) -> list[ProcessRecord]:
    """All processes in the order of their start: as recorded, else on the usual ports.

    `settings`: of the brokers; empty = their old ones. `namesrv_port`: the requested one; None = the old one. `proxy`: with
    one, which a cluster that had it before has again; its settings are those of `environ` ($ZENIT_PROXY__...), over its old
    ones.
    """
    shape = record.shape
    wanted = [ProcessRecord(role=NAME_SERVER, name="namesrv-1", address=f"{HOST}:{NAME_SERVER_PORT}")]
    if shape.has_controllers and not shape.zookeeper:
        store_dir = f"{directory}/{ZOOKEEPER}"
        wanted.append(
            ProcessRecord(role=ZOOKEEPER, name=ZOOKEEPER, address=f"{HOST}:{ZOOKEEPER_PORT}", store_dir=store_dir)
        )
    if shape.has_controllers:
        address, founding = f"{HOST}:{CONTROLLER_PORT}", _founding_settings(shape, settings)
        names = [f"controller-{number}" for number in range(1, shape.controllers + 1)]
        wanted += [ProcessRecord(role=CONTROLLER, name=name, address=address, settings=founding) for name in names]
    for group in group_names(shape):
        for name in replica_names(group, shape):
            wanted.append(
                ProcessRecord(
                    role=BROKER,
                    name=name,
                    address=f"{HOST}:{BROKER_PORT}",
                    store_dir=f"{directory}/{name}",
                    settings=tuple(settings),
                    group=group if shape.is_replicated else None,
                )
            )
    if proxy or record.of_role(PROXY):
        wanted.append(ProcessRecord(role=PROXY, name="proxy-1", address=f"{HOST}:{PROXY_PORT + 1}"))
    processes = [_as_recorded(record, process, settings) for process in wanted]
    if namesrv_port is not None:
        asked = (f"port={namesrv_port}",)
        processes[0] = replace(processes[0], address=f"{HOST}:{namesrv_port}", settings=asked)
    if processes[-1].role == PROXY:
        told = {**_by_key(processes[-1].settings), **_proxy_settings(environ)}
        processes[-1] = replace(processes[-1], settings=tuple(f"{key}={text}" for key, text in told.items()))
    return processes


def broker_port_of(proxy: ProcessRecord) -> int:
    """The first port that stands for a broker: clients keep it, so it is the old one, where there is one."""
    return int(_setting(proxy.settings, BROKER_PORT_KEY) or PROXY_BROKER_PORT)


def with_broker_port(proxy: ProcessRecord, port: int) -> ProcessRecord:
    """The same, recorded."""
    told = {**_by_key(proxy.settings), BROKER_PORT_KEY: str(port)}
    return replace(proxy, settings=tuple(f"{key}={text}" for key, text in told.items()))


def _by_key(settings: Iterable[str]) -> dict[str, str]:
    return {key.strip(): text.strip() for key, _, text in (setting.partition("=") for setting in settings)}


def _proxy_settings(environ: Mapping[str, str]) -> dict[str, str]:
    found = {
        name.removeprefix(PROXY_VARIABLES).replace("__", ".").lower(): text
        for name, text in environ.items()
        if name.startswith(PROXY_VARIABLES)
    }
    return {key: text for key, text in found.items() if key not in DECIDED_OF_PROXY}


def choose_metrics_port(
    record: ClusterRecord, process: ProcessRecord, own: Container[int], is_free: Callable[[int], bool]
) -> int:
    """The port for a process's metrics: its old one, else the first from 9880 on that is free, and neither another process's
    nor one of `own`, which it is about to bind."""
    others = {one.metrics for one in record.processes if (one.role, one.name) != (process.role, process.name)}
    wanted = int(process.metrics.rpartition(":")[2]) if process.metrics else METRICS_PORT

    def is_its(port: int) -> bool:
        return is_free(port) and port not in own and f"{HOST}:{port}" not in others

    return choose_port(wanted, is_its, span=1, step=1)


def group_names(shape: Shape) -> list[str]:
    """broker-a, broker-b, ..."""
    return [f"broker-{chr(ord('a') + number)}" for number in range(shape.groups)]


def replica_names(group: str, shape: Shape) -> list[str]:
    """The group's own name if it has one replica."""
    return [f"{group}-{number}" for number in range(1, shape.replicas + 1)] if shape.is_replicated else [group]


def static_master(record: ClusterRecord, group: str) -> ProcessRecord | None:
    """The broker that is always the group's master; None if another can be, and before it was started."""
    return record.find(BROKER, f"{group}-1") if record.shape.has_static_masters else None


def deciding_addresses(record: ClusterRecord, group: str) -> tuple[str, ...]:
    """The processes that know the group's state: the controllers, or its static master."""
    master = static_master(record, group)
    deciding = record.of_role(CONTROLLER) if master is None else (master,)
    return tuple(process.address for process in deciding)


def arguments_of(record: ClusterRecord, process: ProcessRecord) -> list[str]:
    """The settings of a process, in the form for `--set`; the user's come last."""
    host, port = HOST, process.address.rpartition(":")[2]
    settings = [f"host={host}", f"port={port}"]
    if process.role == CONTROLLER:
        settings += [*_cluster_of(record), f"zookeeper={record.zookeeper}"]
        settings += [f"zookeeper_login={record.keys}/{LOGIN_FILE}"] if record.keys else []
    elif process.role == BROKER:
        settings += [*_cluster_of(record), f"name={process.group or process.name}", f"namesrv={record.namesrv}"]
        settings.append(f"store_dir={process.store_dir}")
        if process.group is not None:
            settings += [f"replica={process.name}", f"replication_port={int(port) + 1}"]
            settings += _whom_it_asks(record, process, process.group)
    elif process.role == PROXY:
        settings += [f"namesrv={record.namesrv}", f"remoting_port={process.remoting.rpartition(':')[2] or NONE}"]
        settings += [f"key={key_path(record, process.name)}"] if record.keys else []
    if record.keys and process.role != PROXY:
        settings += [f"security.key={key_path(record, process.name)}", f"security.trusted={record.keys}/{TRUSTED_FILE}"]
        settings += [f"security.secrets_key={record.keys}/{SECRETS_KEY_FILE}"]
    if process.metrics:
        settings.append(f"{METRICS_BIND}={process.metrics}")
    return [*settings, *process.settings]


def key_path(record: ClusterRecord, name: str) -> str:
    """The key file of a process, or of a user."""
    return f"{record.keys}/{name}.key"


def _cluster_of(record: ClusterRecord) -> tuple[str, ...]:
    return f"cluster={record.cluster}", f"cluster_id={record.cluster_id}"


def _whom_it_asks(record: ClusterRecord, replica: ProcessRecord, group: str) -> list[str]:
    """The settings that tell a replica where to ask for the master; a static master gets its own address."""
    if not record.shape.has_static_masters:
        return [f"controllers={','.join(deciding_addresses(record, group))}"]
    master = static_master(record.with_process(replica), group)
    assert master is not None, "a group's first replica is the first to be started"
    return [f"static_master={master.address}", f"{MINIMUM}={record.shape.min_in_sync}"]


def _as_recorded(record: ClusterRecord, wanted: ProcessRecord, settings: Sequence[str]) -> ProcessRecord:
    before = record.find(wanted.role, wanted.name)
    if before is None:
        return wanted
    return replace(before, settings=tuple(settings)) if settings and wanted.role == BROKER else before


def _founding_settings(shape: Shape, settings: Sequence[str]) -> tuple[str, ...]:
    """The initial settings of new groups; they flush as the user configured the brokers' stores."""
    flush_mode = _setting(settings, FLUSH_MODE) or "async"
    return (
        f"new_group.min_in_sync={shape.min_in_sync}",
        f"new_group.flush_mode={flush_mode}",
        f"new_group.replicas={shape.replicas}",
    )


def _setting(settings: Sequence[str], key: str) -> str | None:
    """The last value of a key among `key=value` texts; None if it is absent."""
    texts = [text.strip() for name, _, text in (setting.partition("=") for setting in settings) if name.strip() == key]
    return texts[-1] if texts else None
