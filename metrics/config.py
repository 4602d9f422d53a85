"""The settings of a process's metrics: the same section, `metrics`, in every role. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.config import check_settings, setting
from ..model.errors import ConfigError

OFF = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricsConfig:
    """Read at the start; what changes online is marked."""

    bind: str = setting(
        OFF,
        "host:port to serve metrics and health at, port 0 = a free one; empty = nowhere. Who reaches it can read the names of"
        " topics and groups, without a password if there is no token_file",
    )
    token_file: str = setting(
        "",
        "path of a file, mode 600, with the tokens of which a scrape must bring one (Authorization: Bearer TOKEN), a line each;"
        " empty = none is asked for. /livez and /readyz stay open. It is read again when it has changed",
    )
    compat: str = setting(
        "",
        "rocketmq adds RocketMQ 5's names, for boards that exist: about twice as many lines",
        choices=("", "rocketmq"),
    )
    series_max: int = setting(
        50_000,
        "lines of one scrape, about 100 bytes each; what is above that is left out and counted",
        minimum=1_000,
        maximum=5_000_000,
    )

    def __post_init__(self) -> None:
        check_settings(self)
        host, _, port = self.bind.rpartition(":")
        if self.bind and (not host or not port.isdecimal() or int(port) > 65_535):
            raise ConfigError("bind", self.bind, "host:port, or nothing")
