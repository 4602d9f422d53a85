"""The settings of a secured process: one section for every role. Pure."""

from __future__ import annotations

from typing import Final

from ...model.config import setting
from ...model.plain_dataclass import dataclass

HANDSHAKES_PER_SECOND: Final = 2000
"""About what one core does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SecurityConfig:
    """[security]. Without a key the process lets everybody in and does what anybody asks."""

    key: str = setting("", "file with this process's key pair, mode 600, from `zenit key new`; empty = no security")
    trusted: str = setting(
        "", "file with the public keys of all servers and of the first super user, which only its owner may write"
    )
    open_port: int = setting(
        0,
        "TCP port on which clients without a key come in, while a cluster is being secured; 0 = none",
        minimum=0,
        maximum=65535,
    )
    open_user: str = setting(
        "",
        "user whose rights those have who come by the open port. A server of the trusted file: servers come in by it too, are"
        " told it, and replicate without keys",
    )
    secrets_key: str = setting(
        "",
        "file with the key under which users' secrets are stored, for clients that come through a gateway; the same at each"
        " server, mode 600, from `zenit key secrets`; empty = users have no secrets",
    )
    handshakes_per_second: int = setting(
        HANDSHAKES_PER_SECOND,
        "new connections that one IP address may make in a second; 0 = unlimited. One core does about 2,000",
        minimum=0,
        maximum=1_000_000,
    )
