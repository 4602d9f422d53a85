"""The settings of a proxy. Pure."""

from __future__ import annotations

import re
from typing import Final
from zlib import crc32

from ..metrics.config import MetricsConfig
from ..model.config import check_settings, section, setting
from ..model.errors import ConfigError, InvalidParameter
from ..model.events.log_config import LogConfig
from ..model.groups.group_limits import check_address, check_host
from ..model.plain_dataclass import dataclass

GRPC_PORT: Final = 8081
REMOTING_PORT: Final = 8080
BROKER_PORT: Final = 10911
PORTS_APART: Final = 3
"""Between the ports that stand for brokers."""
VIP_BELOW: Final = 2
"""So far below each is another one, for clients that want a way of their own for sends."""
PORT_MAX: Final = 65_535
NO_PORT: Final = -1
PLACES_MAX: Final = 128
"""Of ports that are given by name; those of other names come behind."""
OTHER_PLACES: Final = 2_048
BROKER_PORT_MAX: Final = 65_000
_USUAL_NAME: Final = re.compile("broker-[a-z]")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProxyLimits:
    """What one process of a proxy holds at most. Above it a request is answered with RocketMQ's "too many requests"."""

    connections: int = setting(
        10_000, "connections of one process; more are closed at once", minimum=1, maximum=1_000_000
    )
    bytes_in_flight: int = setting(
        256 * 1024 * 1024,
        "bytes of requests that wait for their answers; more are refused. Parts of requests have as much again: over it, the"
        " connection is closed whose part has been the most for the longest time. Answers that are not read yet have as much"
        " too. In a secured cluster connections that have not signed a request yet share a quarter of the room for parts. Of"
        " what waits and of answers, one connection of gRPC has an eighth at most",
        minimum=16 * 1024 * 1024,
        maximum=64 * 1024 * 1024 * 1024,
    )
    polls: int = setting(
        20_000, "receives and pulls that wait for messages; more are answered at once", minimum=1, maximum=1_000_000
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ProxyConfig:
    """Read at the start; what changes online is marked."""

    namesrv: tuple[str, ...] = setting(("127.0.0.1:9876",), "name servers of the cluster, host:port each")
    key: str = setting(
        "",
        "file with the key pair of the proxy's user, mode 600, from `zenit key new`; empty = a cluster without security. The"
        " user needs the right pub on gateway",
    )
    host: str = setting(
        "127.0.0.1",
        "IP address or DNS name by which clients of the remoting protocol reach this proxy: routes name it. gRPC clients are"
        " told the address that they came by",
    )
    listen_host: str = setting("", "IP address to listen on where it is not `host`, such as 0.0.0.0 in a container")
    port: int = setting(
        GRPC_PORT, "TCP port for gRPC without TLS; 0 = a free one, -1 = none", minimum=NO_PORT, maximum=65_535
    )
    tls_port: int = setting(
        NO_PORT, "TCP port for gRPC with TLS; 0 = a free one, -1 = none", minimum=NO_PORT, maximum=65_535
    )
    tls_certificate: str = setting("", "file with the certificate chain, PEM; empty = no TLS")
    tls_key: str = setting("", "file with the certificate's private key, PEM, mode 600; empty = no TLS")
    remoting_port: int = setting(
        REMOTING_PORT,
        "TCP port for the remoting protocol: clients get it as their name server; 0 = a free one, -1 = none. TLS comes by the"
        " same port",
        minimum=NO_PORT,
        maximum=65_535,
    )
    broker_port: int = setting(
        BROKER_PORT,
        "first TCP port of those that stand for brokers, one for each broker name, 3 apart: old clients name a broker by its"
        " address alone, and use the port 2 below too. broker-a has this one, broker-b the next, up to broker-z; another name"
        " has one of 2,048 that begin 384 higher, by its checksum. The log tells them. 0 = free ones, others at each start",
        minimum=0,
        maximum=BROKER_PORT_MAX,
    )
    broker_names: tuple[str, ...] = setting(
        (),
        "broker names whose ports are these: the first one's is `broker_port`, each next one's is 3 higher. Set it where"
        " brokers have other names than broker-a to broker-z, to the same at all proxies. Add new names behind: clients keep"
        " routes and ids of messages, which name the port",
    )
    processes: int = setting(
        1,
        "processes that share the gRPC ports; about one for each core. Connections are spread over them, not requests",
        minimum=1,
        maximum=256,
    )
    signatures: str = setting(
        "required",
        "required: of a secured cluster only clients that sign with a user's secret are served; optional: who does not sign has"
        " the rights of the proxy's own user",
        choices=("required", "optional"),
    )
    signed_within_ms: int = setting(
        54_000_000,
        "how far from now the time may be that a gRPC client signs, so that who reads a call on its way cannot use it later; 15"
        " h because some clients sign their local time; 0 = any",
        minimum=0,
        maximum=31 * 86_400_000,
    )
    drain_ms: int = setting(
        10_000,
        "how long clients have at the end to go to another proxy before their connections are closed",
        minimum=0,
        maximum=600_000,
    )
    limits: ProxyLimits = section(ProxyLimits)
    log: LogConfig = section(LogConfig)
    metrics: MetricsConfig = section(MetricsConfig)

    @property
    def node(self) -> str:
        """Its name in logs."""
        return f"{self.host}:{self.port if self.port > 0 else self.remoting_port}"

    @property
    def group(self) -> str:
        """It is in no replica group."""
        return ""

    def port_of(self, broker_name: str) -> int:
        """The port that stands for a broker: by the name alone, so that each proxy with these settings has the same at each
        start, whichever brokers there are then. Two names might get one port, but for those that are set."""
        if broker_name in self.broker_names:
            place = self.broker_names.index(broker_name)
        elif not self.broker_names and _USUAL_NAME.fullmatch(broker_name):
            place = ord(broker_name[-1]) - ord("a")
        else:
            places = min(OTHER_PLACES, (PORT_MAX - self.broker_port) // PORTS_APART - PLACES_MAX)
            place = PLACES_MAX + crc32(broker_name.encode()) % places
        return self.broker_port + PORTS_APART * place

    @property
    def bound_host(self) -> str:
        """Where it listens."""
        return self.listen_host or self.host

    def __post_init__(self) -> None:
        check_settings(self)
        check_host("host", self.host)
        for address in self.namesrv:
            try:
                check_address("namesrv", address)
            except InvalidParameter as error:
                raise ConfigError("namesrv", address, error.expected) from None
        if not self.namesrv:
            raise ConfigError("namesrv", "", "at least one host:port")
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise ConfigError("tls_key", self.tls_key, "a file beside tls_certificate, and only then")
        if self.tls_port != NO_PORT and not self.tls_certificate:
            raise ConfigError("tls_certificate", "", "a file: there is a tls_port")
        if self.port == self.tls_port == self.remoting_port == NO_PORT:
            raise ConfigError("port", self.port, "a port, or one for TLS or remoting: nobody could come")
        if len(set(self.broker_names)) < len(self.broker_names) or "" in self.broker_names:
            raise ConfigError("broker_names", ",".join(self.broker_names), "broker names, each once")
        if self.broker_names and not self.broker_port:
            raise ConfigError("broker_names", ",".join(self.broker_names), "names only where broker_port is not 0")
        if len(self.broker_names) > PLACES_MAX:
            raise ConfigError("broker_names", f"{len(self.broker_names)} names", f"at most {PLACES_MAX}")
        taken = [port for port in (self.port, self.tls_port, self.remoting_port) if port > 0]
        if len(set(taken)) < len(taken):
            raise ConfigError("port", self.port, "another port than tls_port and remoting_port")
