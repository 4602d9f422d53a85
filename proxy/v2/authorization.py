"""What a call says of its client, from its metadata: who it is, and who signed it. Pure.

    authorization: MQv2-HMAC-SHA1 Credential=KEY[/region/service], SignedHeaders=x-mq-date-time, Signature=HEX

The signature is HMAC-SHA1 of the raw value of x-mq-date-time, which is the second of the call, as 20260131T235959Z. Several
clients write their local time there and call it UTC. So who reads a header on its way can use it for some hours, not for ever.
An empty key is nobody's: RocketMQ's Python client sends the header even then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from ...model.plain_dataclass import dataclass
from .status import CallRefused, Code

ALGORITHM: Final = "MQv2-HMAC-SHA1"
LENGTH_MAX: Final = 1024
_MOMENT: Final = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)T(\d\d):?(\d\d):?(\d\d)")
CLIENT_ID_LENGTH_MAX: Final = 255
KNOWN_MAX: Final = 16_384
"""Callers that are remembered as they told of themselves."""
KNOWN_LENGTH_MAX: Final = 1_024
"""Of what one told, to be remembered."""
LANGUAGES: Final = {
    "JAVA": "JAVA",
    "CPP": "CPP",
    "DOTNET": "DOTNET",
    "GOLANG": "GO",
    "GO": "GO",
    "RUST": "RUST",
    "PYTHON": "PYTHON",
    "HTTP": "NODE_JS",
    "NODE_JS": "NODE_JS",
    "PHP": "PHP",
}
"""How clients name their language: how RocketMQ names it elsewhere. Node's says HTTP."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls. `address`: its IP address. `access_key`, `signature`, `signed`: "" for nobody."""

    client_id: str
    namespace: str
    language: str
    version: str
    address: str
    port: int
    access_key: str
    signature: str
    signed: bytes


def caller_of(metadata: Mapping[str, str], peer: str) -> Caller:
    """`peer`: as gRPC tells it, such as "ipv4:10.1.2.3:41234". Raises CallRefused for what no client sends."""
    get = metadata.get
    authorization = get("authorization", "")
    told = (
        get("x-mq-client-id", ""),
        get("x-mq-namespace", ""),
        get("x-mq-language", ""),
        get("x-mq-client-version", ""),
        authorization,
        get("x-mq-date-time", "") if authorization else "",
        peer,
    )
    if len("".join(told)) > KNOWN_LENGTH_MAX:
        return _caller.__wrapped__(*told)
    return _caller(*told)


@lru_cache(KNOWN_MAX)
def _caller(
    client_id: str, namespace: str, language: str, version: str, authorization: str, signed: str, peer: str
) -> Caller:
    """Clients say the same with each call, and sign it anew each second at most. Raises CallRefused."""
    if len(client_id) > CLIENT_ID_LENGTH_MAX:
        raise CallRefused(Code.BAD_REQUEST, f"x-mq-client-id: at most {CLIENT_ID_LENGTH_MAX} characters")
    access_key, signature = _signature(authorization)
    address, port = address_of(peer)
    language = language.upper()
    return Caller(
        client_id,
        namespace,
        LANGUAGES.get(language, language[:32]),
        version[:64],
        address,
        port,
        access_key,
        signature,
        signed.encode(errors="replace") if access_key else b"",
    )


def check_moment(caller: Caller, now_ms: int, within_ms: int) -> None:
    """Of a signature: so far from now its time may be. Any time where that is 0, and what is no time. Raises CallRefused."""
    if not within_ms or not caller.access_key:
        return
    found = _MOMENT.match(caller.signed.decode(errors="replace"))
    if found is None:
        return
    try:
        signed_ms = int(datetime(*map(int, found.groups()), tzinfo=UTC).timestamp()) * 1000  # type: ignore[misc, arg-type]
    except ValueError:
        return
    if abs(now_ms - signed_ms) > within_ms:
        text = f"x-mq-date-time {found[0]}: at most {within_ms // 60_000} minutes from now"
        raise CallRefused(Code.UNAUTHORIZED, text)


def _signature(text: str) -> tuple[str, str]:
    """(access key, signature). Raises CallRefused."""
    if not text:
        return "", ""
    algorithm, _, rest = text.partition(" ")
    if algorithm != ALGORITHM or len(text) > LENGTH_MAX:
        raise CallRefused(
            Code.UNAUTHORIZED, f"authorization: {ALGORITHM} is expected, in at most {LENGTH_MAX} characters"
        )
    fields = dict(part.strip().partition("=")[::2] for part in rest.split(","))
    access_key = fields.get("Credential", "").partition("/")[0]
    return access_key, fields.get("Signature", "") if access_key else ""


@lru_cache(KNOWN_MAX)
def address_of(peer: str) -> tuple[str, int]:
    """(IP address, port) of a peer; ("", 0) if it has none, as of a Unix socket."""
    kind, _, rest = peer.replace("%5B", "[").replace("%5D", "]").partition(":")
    host, _, port = rest.rpartition(":")
    if kind not in ("ipv4", "ipv6") or not port.isdecimal():
        return "", 0
    return host.strip("[]").partition("%")[0], int(port)
