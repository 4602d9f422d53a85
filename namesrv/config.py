"""The settings of a name server. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ..metrics.config import MetricsConfig
from ..model.config import check_settings, section, setting
from ..model.errors import ConfigError
from ..model.events.log_config import LogConfig
from ..remoting.security.security_config import SecurityConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class NameServerConfig:
    """Read at the start; what changes online is marked."""

    host: str = setting(
        "127.0.0.1",
        "IP address to listen on; 0.0.0.0 = all of the machine's. Without [security] who reaches it may do everything",
    )
    port: int = setting(9876, "TCP port for requests; 0 = a free one", minimum=0, maximum=65535)
    publish_port: int = setting(
        0,
        "TCP port on which route changes are published; 0 = port + 1, or a free one where that is taken",
        minimum=0,
        maximum=65535,
    )
    heartbeat_timeout_ms: int = setting(
        10_000,
        "a broker is dead after this silence (it sends each second); lower reroutes sooner, but drops a paused broker",
        minimum=2_000,
        maximum=600_000,
    )
    scan_interval_ms: int = setting(
        1_000,
        "how often silent brokers are looked for; adds at most this much to heartbeat_timeout_ms",
        minimum=10,
        maximum=60_000,
    )
    listen_ms: int = setting(
        5_000,
        "how long after its start it lets no broker begin a new cluster: those of an old one come back within 4 s (a heartbeat"
        " each second, an answer that is lost is given up after 2 s); longer waits for brokers that take long to open their"
        " stores, shorter begins the first cluster sooner",
        minimum=0,
        maximum=600_000,
    )
    brokers_max: int = setting(
        10_000, "brokers that may be registered at a time; more are refused", minimum=1, maximum=100_000
    )
    topics_max: int = setting(
        500_000,
        "topics that may be registered, counted once a broker name: each takes some 300 bytes of memory; more are refused",
        minimum=1,
        maximum=10_000_000,
    )
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
        if self.scan_interval_ms * 4 > self.heartbeat_timeout_ms:
            raise ConfigError(
                "scan_interval_ms",
                self.scan_interval_ms,
                f"at most a quarter of heartbeat_timeout_ms ({self.heartbeat_timeout_ms})",
            )
        if self.publish_port and self.publish_port == self.port:
            raise ConfigError("publish_port", self.publish_port, "another port than port")
