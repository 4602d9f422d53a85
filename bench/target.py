"""The measured cluster: found or started, with a topic for the measurement, and its brokers' statistics."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from ..client.admin import Admin
from ..client.connection.client_keys import key_path, new_remoting
from ..client.connection.cluster import name_servers
from ..client.connection.connection import connect, release
from ..client.connection.engine_url import EMBEDDED, is_engine, parse_engine
from ..client.connection.waiting import Blocking, run_blocking
from ..model.clock import monotonic_ms, sleep_ms
from ..model.errors import ConnectionLost, InvalidParameter, NoRoute, RequestTimeout, TopicNotFound
from ..model.route import QUEUE_TYPE_ATTRIBUTE
from ..remoting.client import RemotingClient
from ..remoting.commands import (
    GetBrokerConfig,
    GetBrokerStatistics,
    GetClusterInfo,
    GetMaxOffset,
    GetRoute,
    OffsetReply,
    RouteReply,
)
from .options import BenchOptions, BenchProgress, Report, bench_options
from .own_cluster import LogFiles, OwnCluster, Pages, store_settings
from .stages import Stages, added_stages

_CALL_MS: Final = 5000
_PROBE_MS: Final = 1500
_ROUTE_MS: Final = 15_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUse:
    """What all brokers together have used so far, by their own statistics."""

    cpu_seconds: float
    memory_bytes: int | None  # resident, without pages of files; None if the system does not report it
    stages: Stages  # of the turns that the brokers sample


class Target:
    """A cluster and the topic of one run. Owned by the thread that runs the benchmark."""

    def __init__(
        self,
        client: RemotingClient,
        namesrv: str,
        topic: str,
        cluster: OwnCluster | None,
        facts: Mapping[str, Any],
        name_server: str,
    ) -> None:
        """`cluster`: if the run started it itself. `name_server`: its address, for `client`.

        `facts`: {name, id, namesrv, started_for_this}, which identify the cluster.
        """
        self._client = client
        self.namesrv = namesrv
        self.topic = topic
        self.cluster = cluster
        self.facts = facts
        self._name_server = name_server

    @property
    def is_engine(self) -> bool:
        """Whether it is in this process, so that loads must be, too."""
        return is_engine(self.namesrv)

    def route(self) -> RouteReply:
        """The topic's route. Raises TopicNotFound, NoRoute."""
        reply, _ = self._client.call(self._name_server, GetRoute(self.topic), timeout_ms=_CALL_MS)
        assert isinstance(reply, RouteReply)
        return reply

    def wait_route(self) -> RouteReply:
        """Waits for the topic's route: a broker registers a new topic soon, not at once. Raises NoRoute."""
        deadline = monotonic_ms() + _ROUTE_MS
        while monotonic_ms() < deadline:
            try:
                return self.route()
            except (TopicNotFound, NoRoute):
                sleep_ms(20)
        raise NoRoute(self.topic, "its brokers did not register it in time")

    def addresses(self) -> dict[str, str]:
        """Broker name -> address of its master."""
        return {name: dict(members)[0] for _, name, members in self.route().brokers if 0 in dict(members)}

    def cluster_id(self) -> str:
        """The id of the topic's cluster. Clients name it in requests, and a broker's fast path for sends needs it."""
        return dict(self.route().cluster_ids)[self.route().brokers[0][0]]

    def write_queues(self) -> list[tuple[str, int]]:
        """(broker address, queue id) of each writable queue."""
        addresses = self.addresses()
        return [(addresses[name], queue) for name, _, writes, _ in self.route().queues for queue in range(writes)]

    def end_offsets(self) -> list[tuple[str, int, int]]:
        """(broker name, queue id, offset of the next message) of each readable queue."""
        addresses = self.addresses()
        found = []
        for name, reads, _, _ in self.route().queues:
            for queue in range(reads):
                reply, _payload = self._client.call(
                    addresses[name], GetMaxOffset(self.topic, queue), timeout_ms=_CALL_MS
                )
                assert isinstance(reply, OffsetReply)
                found.append((name, queue, reply.offset))
        return found

    def statistics(self) -> list[dict[str, Any]]:
        """The statistics of each broker."""
        return [self._document(address, GetBrokerStatistics()) for address in self.addresses().values()]

    def settings(self) -> list[dict[str, Any]]:
        """The settings of each broker."""
        return [self._document(address, GetBrokerConfig()) for address in self.addresses().values()]

    def _document(self, address: str, request: GetBrokerStatistics | GetBrokerConfig) -> dict[str, Any]:
        _, payload = self._client.call(address, request, timeout_ms=_CALL_MS)
        document: dict[str, Any] = json.loads(payload)
        return document

    def use(self) -> BrokerUse:
        """CPU, memory and stages of all brokers so far."""
        documents = self.statistics()
        memory = [document["memory_bytes"] for document in documents]
        return BrokerUse(
            cpu_seconds=sum(float(document["cpu_seconds"]) for document in documents),
            memory_bytes=None if None in memory else sum(memory),
            stages=added_stages([document["stages"] for document in documents]),
        )


@contextmanager
def opened_target(options: BenchOptions, directory: str, files: LogFiles, report: Report) -> Iterator[Target]:
    """The cluster of the options, the one that runs here, or one started in `directory` and stopped afterwards.

    `files`: of one that is started. Raises InvalidParameter if a named cluster does not fit the options.
    """
    stamped = options.stages and options.work == "latency" and options.namesrv is None
    own = options.own_cluster or options.warm or not options.index or options.consume_queue != "file"
    if own and options.namesrv is not None:
        raise InvalidParameter(
            "--namesrv", options.namesrv, "none: warm files and settings need a cluster of their own"
        )
    if options.namesrv is not None and is_engine(options.namesrv):
        with _engine(options, report) as target:
            yield target
        return
    found = () if own else name_servers(options.namesrv)
    with new_remoting(key_path(None, found), found) as client:
        if found and _answers(client, found[0]):
            with _topic(client, options, ",".join(found)) as target:
                if "flush" in bench_options(options.work):
                    _check_flush(target, options)
                report(BenchProgress(phase="cluster", elapsed_seconds=0.0, total_seconds=0.0, note=_which(target)))
                yield target
            return
        if options.namesrv is not None:
            raise ConnectionLost(options.namesrv)
        report(BenchProgress(phase="start cluster", elapsed_seconds=0.0, total_seconds=0.0))
        stamps_path = os.path.join(directory, "broker-stamps.npy") if stamped else ""
        with OwnCluster(directory, files, stamps_path) as cluster:
            pages: Pages = "filling" if options.warm else "fresh"
            cluster.start_broker(
                store_settings(
                    files, flush=options.flush, index=options.index, engine=options.consume_queue, pages=pages
                )
            )
            with _topic(client, options, cluster.namesrv, cluster) as target:
                yield target


@contextmanager
def _engine(options: BenchOptions, report: Report) -> Iterator[Target]:
    """An engine in this process; its loads are threads. Raises InvalidParameter for what only processes can do."""
    assert options.namesrv is not None
    for flag, is_given in (
        ("--prebuilt", options.prebuilt),
        ("--stages", options.stages),
        ("--stalled", options.stalled),
    ):
        if is_given:
            raise InvalidParameter(flag, "given", "a cluster: loads of an engine are threads beside it")
    if options.work == "transactions" and parse_engine("--namesrv", options.namesrv).scheme == EMBEDDED:
        raise InvalidParameter(
            "--namesrv", options.namesrv, "memory://, local:/// or a cluster: this has no transactions"
        )
    connection = connect(options.namesrv)
    try:
        address = connection.addresses[0]
        with _topic(connection.remoting, options, options.namesrv, name_server=address) as target:
            _check_flush(target, options)
            report(BenchProgress(phase="engine", elapsed_seconds=0.0, total_seconds=0.0, note=target.namesrv))
            yield target
    finally:
        run_blocking(release(connection, Blocking(connection.remoting)))


def _which(target: Target) -> str:
    """A description of the cluster under load, because others may be using it."""
    return f"{target.facts['name']} ({target.facts['id']}) at {target.namesrv}, which runs already"


def _answers(client: RemotingClient, address: str) -> bool:
    try:
        client.call(address, GetClusterInfo(), timeout_ms=_PROBE_MS)
    except (ConnectionLost, RequestTimeout):
        return False
    return True


@contextmanager
def _topic(
    client: RemotingClient,
    options: BenchOptions,
    namesrv: str,
    cluster: OwnCluster | None = None,
    *,
    name_server: str | None = None,
) -> Iterator[Target]:
    """A topic of the run's own, deleted afterwards, unless an existing one is named."""
    name = options.topic or f"bench-{secrets.token_hex(8)}"
    with Admin(namesrv) as admin:
        broker = next(iter(admin.cluster()["brokers"]), {"cluster": None, "cluster_id": None})
        facts = {"name": broker["cluster"], "id": broker["cluster_id"], "namesrv": namesrv}
        facts["started_for_this"] = cluster is not None
        target = Target(client, namesrv, name, cluster, facts, name_server or name_servers(namesrv)[0])
        if options.topic is not None and options.topic in admin.topics():
            yield target
            return
        attributes = {QUEUE_TYPE_ATTRIBUTE: "BatchCQ"} if options.batch_queue else None
        admin.create_topic(name, queues=options.queues, attributes=attributes)
        try:
            target.wait_route()
            yield target
        finally:
            if cluster is None:
                admin.delete_topic(name)


def _check_flush(target: Target, options: BenchOptions) -> None:
    """A running cluster flushes as configured; the figure must not claim another mode."""
    modes = {str(settings.get("store.flush_mode")) for settings in target.settings()}
    if modes - {options.flush, "None"}:
        raise InvalidParameter(
            "--flush", options.flush, f"{', '.join(sorted(modes))}, as the running cluster has it; or --own-cluster"
        )
