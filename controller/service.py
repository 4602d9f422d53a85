"""The controller process: a request loop, one session with ZooKeeper, and a campaign to lead (campaign).

    ZooKeeper's own threads --post--> loop thread --StoreWorker--> one worker that asks ZooKeeper --post--> loop thread

The loop answers brokers and operators and never waits for ZooKeeper. Only SIGTERM, a wrong configuration or a defect of
our own ends the process: after a failed callback it does not continue, because all that counts is in ZooKeeper.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Final, Self

from ..metrics.endpoint import MetricsEndpoint
from ..model.arena import Arena
from ..model.clock import Clock, SystemClock
from ..model.errors import ConfigError, WrongCluster
from ..model.events.telling import kept_by
from ..remoting.client import RemotingClient
from ..remoting.commands import Request
from ..remoting.loop_times import LoopTimes
from ..remoting.options import HEADER_BYTES_MAX
from ..remoting.security.key_file import read_secret
from ..remoting.security.opened_security import open_security
from ..remoting.server import RequestLoop
from .campaign import Campaign, Ground, OpenStore
from .cluster_naming import ClusterNaming
from .config import ControllerConfig
from .controller_reader import ControllerReader
from .group.detection import Detection
from .group_store import Listener
from .store_worker import StoreWorker
from .zookeeper import ZooKeeperStore

log = logging.getLogger(__name__)

EXIT_FAULT: Final = 87


class Controller:
    """Listens from construction to `__exit__`; serves while `run()` runs. Raises ConfigError if the port is taken."""

    def __init__(
        self,
        config: ControllerConfig,
        *,
        open_store: OpenStore | None = None,
        clock: Clock | None = None,
        metrics: MetricsEndpoint | None = None,
    ) -> None:
        """`metrics`: where it is measured; it outlives the controller."""
        self._config = config
        clock = SystemClock() if clock is None else clock
        self._fault: Exception | None = None
        with ExitStack() as opened:
            arena = Arena(drain_bytes=1, frame_bytes_max=HEADER_BYTES_MAX)  # no request of ours has a payload
            bind = f"{config.listen_host or config.host}:{config.port}"
            login = read_secret(config.zookeeper_login) if config.zookeeper_login else ""
            secured = open_security(config.security, clock, opened, host=config.listen_host or config.host)
            door = secured.door if secured is not None else None
            self._loop = opened.enter_context(RequestLoop(bind=bind, arena=arena, clock=clock, door=door))
            self.port = self._loop.told_port
            self.address = f"{config.host}:{self.port}"
            session = opened.enter_context(ExitStack())  # the worker enters the session, and it is left last
            worker = ThreadPoolExecutor(1, thread_name_prefix="zenit-zookeeper")
            opened.callback(worker.shutdown, cancel_futures=True)
            ground = Ground(
                loop=self._loop,
                worker=StoreWorker(worker, self._loop, on_dropped=self._on_dropped),
                client=opened.enter_context(
                    RemotingClient("zenit-controller-io", secured.keys if secured is not None else None)
                ),
                clock=clock,
                open_store=open_store or partial(_open_zookeeper, config, login),
                session=session,
                on_dropped=self._on_dropped,
                zookeeper=config.zookeeper,
                on_key=(lambda at, key: secured.keys.learn(((at, key),))) if secured is not None else None,
            )
            self._opened = opened.pop_all()
        self._campaign = Campaign(
            ground,
            address=self.address,
            new_group=config.new_group.settings,
            new_group_replicas=config.new_group.replicas,
            new_detection=lambda: Detection(
                dead_after_ms=config.dead_after_ms, probe_timeout_ms=config.probe_timeout_ms
            ),
            naming=ClusterNaming(cluster=config.cluster, pinned=config.cluster_id, on_known=self._on_cluster_known),
        )
        self._loop.on_other_cluster = self._refuse
        if metrics is not None:
            self._loop.times = LoopTimes()
            metrics.serve(ControllerReader(self._loop, self._campaign, cluster=config.cluster))
            self._opened.callback(metrics.serve, None)
        if secured is not None:
            self._campaign.security.guard(secured, self._loop)
            self._campaign.security.learn()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()
        if self._fault is None:
            log.info("controller stopped address=%s", self.address)
        else:
            log.critical("controller ended by a fault of its own, start it again; error=%r", self._fault)

    def run(self) -> int:
        """Serves in the calling thread until `stop`; returns the exit status: 0, or 87 after a defect of our own.

        Raises ConfigError if ZooKeeper's cluster id differs from the setting.
        """
        log.info("controller started address=%s zookeeper=%s", self.address, ",".join(self._config.zookeeper))
        try:
            with kept_by(self._campaign.keep):
                self._campaign.keep_events()
                self._campaign.begin()
                self._loop.run()
        except ConfigError:
            raise
        except Exception as error:  # of a timer or a posted callback: the top of the thread
            log.exception("a callback failed")
            self._fault = error
        return 0 if self._fault is None else EXIT_FAULT

    def _on_cluster_known(self, cluster_id: str) -> None:
        self._loop.cluster_id = cluster_id

    def _refuse(self, _: Request, asked_id: str) -> None:
        """While our cluster has no id, a broker with an id may be the one that brings it."""
        if self._loop.cluster_id:
            raise WrongCluster(self._config.cluster, self._loop.cluster_id, asked_id)

    def stop(self) -> None:
        """Makes `run` return soon. From any thread or a signal handler."""
        self._loop.stop()

    def _on_dropped(self) -> None:
        """An answer of ZooKeeper is lost to the loop: it could wait for ever, or lead by outdated news. Any thread."""
        self._fault = RuntimeError("the loop had no room for an answer of ZooKeeper")
        self._loop.stop()


def _open_zookeeper(config: ControllerConfig, login: str, listener: Listener) -> ZooKeeperStore:
    return ZooKeeperStore(
        ",".join(config.zookeeper),
        cluster=config.cluster,
        listener=listener,
        session_timeout_ms=config.session_timeout_ms,
        login=login,
    )
