"""The settings of a controller. Pure."""

from __future__ import annotations

from ..metrics.config import MetricsConfig
from ..model.cluster_id import check_cluster_setting
from ..model.config import check_settings, section, setting
from ..model.errors import ConfigError, InvalidName, InvalidParameter
from ..model.events.log_config import LogConfig
from ..model.groups.group import AckMode, FlushMode, GroupSettings
from ..model.groups.group_limits import LAG_MS_MAX, LAG_MS_MIN, REPLICAS_MAX, check_address, check_name
from ..model.plain_dataclass import dataclass
from ..remoting.security.security_config import SecurityConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class NewGroupConfig:
    """The settings of a new replica group, when its first broker registers. Existing groups keep those in their nodes."""

    min_in_sync: int = setting(
        2,
        "replicas that must be in sync for a group to take writes: 1 writes on with one copy left, and may lose it",
        minimum=1,
        maximum=REPLICAS_MAX,
    )
    flush_mode: str = setting(
        FlushMode.ASYNC.value,
        "what a replica's acknowledgement means; sync: on its disk; async: written, and flushed soon",
        choices=tuple(mode.value for mode in FlushMode),
    )
    ack_mode: str = setting(
        AckMode.ALL.value,
        "whom a send waits for; all: the in-sync set; master: the master alone, which can lose what it acknowledged",
        choices=tuple(mode.value for mode in AckMode),
    )
    lag_ms_max: int = setting(
        10_000,
        "a replica that was not caught up for so long leaves the in-sync set; lower drops one that only hiccups",
        minimum=LAG_MS_MIN,
        maximum=LAG_MS_MAX,
    )

    replicas: int = setting(
        0,
        "how many replicas a new group begins with: it is founded once so many have registered, none of which knows of an"
        " earlier one; 0 = not known: a controller that has just begun to lead listens for 4.5 s first",
        minimum=0,
        maximum=REPLICAS_MAX,
    )

    @property
    def settings(self) -> GroupSettings:
        """The same as the node holds it."""
        return GroupSettings(
            min_in_sync=self.min_in_sync,
            flush_mode=FlushMode(self.flush_mode),
            ack_mode=AckMode(self.ack_mode),
            lag_ms_max=self.lag_ms_max,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ControllerConfig:
    """Read at the start; what changes online is marked."""

    cluster: str = setting("zenit", "cluster whose groups it looks after; its folder in ZooKeeper is /zenit/NAME")
    cluster_id: str = setting(
        "",
        "the cluster's id, by which it is told from another of its name; empty = the one that ZooKeeper holds, else that the"
        " first broker brings, else a new one",
    )
    host: str = setting(
        "127.0.0.1",
        "IP address or DNS name that brokers and other controllers' clients are told to connect to. Without [security] who"
        " reaches it may do everything",
    )
    listen_host: str = setting("", "IP address to listen on where it is not `host`, such as 0.0.0.0 in a container")
    port: int = setting(9878, "TCP port for requests; 0 = a free one", minimum=0, maximum=65535)
    zookeeper: tuple[str, ...] = setting(
        ("127.0.0.1:2181",), "servers of one ZooKeeper ensemble, host:port each; any one that answers will do"
    )
    zookeeper_login: str = setting(
        "",
        "file with USER:PASSWORD, mode 600: the cluster's nodes in ZooKeeper are then this user's alone (digest scheme);"
        " empty = who reaches ZooKeeper may elect masters",
    )
    dead_after_ms: int = setting(
        2000,
        "a replica is dead after this silence (it sends each 0.5 s); lower elects sooner, but also where one was only paused",
        minimum=1000,
        maximum=60_000,
    )
    probe_timeout_ms: int = setting(
        300,
        "how long a master whose slaves all lost it may take to answer a probe before another is elected",
        minimum=50,
        maximum=10_000,
    )
    session_timeout_ms: int = setting(
        4000,
        "ZooKeeper takes a silent controller's place away after this; lower lets another lead sooner, but also where it was"
        " only paused",
        minimum=1000,
        maximum=60_000,
    )
    new_group: NewGroupConfig = section(NewGroupConfig)
    security: SecurityConfig = section(SecurityConfig)
    log: LogConfig = section(LogConfig)
    metrics: MetricsConfig = section(MetricsConfig)

    @property
    def node(self) -> str:
        """Its name in logs."""
        return f"{self.host}:{self.port}"

    @property
    def group(self) -> str:
        """It is in no replica group."""
        return ""

    def __post_init__(self) -> None:
        check_settings(self)
        try:
            check_name("cluster", self.cluster)
        except InvalidName as error:
            raise ConfigError("cluster", self.cluster, error.rule) from None
        check_cluster_setting(self.cluster_id)
        if not self.zookeeper:
            raise ConfigError("zookeeper", "", "at least one host:port")
        for address in self.zookeeper:
            try:
                check_address("zookeeper", address)
            except InvalidParameter as error:
                raise ConfigError("zookeeper", address, error.expected) from None
        if self.probe_timeout_ms >= self.dead_after_ms:
            raise ConfigError(
                "probe_timeout_ms", self.probe_timeout_ms, f"less than dead_after_ms ({self.dead_after_ms})"
            )
