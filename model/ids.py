"""The two identifiers of a message. Pure.

*Unique id* ("message id", what users see; property UNIQ_KEY): made by the producer, 32 upper-case hex digits:
ip 4 bytes, pid 2, a random salt 4 (RocketMQ: class-loader hash), milliseconds since the first of the month 4, counter 2.
*Offset message id*: made by the broker, store host ip 4 (or 16), port 4, physical offset 8, upper-case hex.
"""

from __future__ import annotations

import ipaddress
import struct

from .errors import InvalidParameter
from .plain_dataclass import dataclass
from .queue import PhysicalOffset

_OFFSET_ID_V4 = struct.Struct(">4siq")
_OFFSET_ID_V6 = struct.Struct(">16siq")


@dataclass(frozen=True, slots=True)
class HostAddress:
    """An ip address and port as records hold them."""

    ip: bytes  # 4 or 16 bytes
    port: int

    @staticmethod
    def parse(text: str, port: int) -> HostAddress:
        """From "10.0.0.1" or "::1". Raises InvalidParameter for anything else."""
        try:
            return HostAddress(ipaddress.ip_address(text).packed, port)
        except ValueError as error:
            raise InvalidParameter("address", text, "an IPv4 or IPv6 address") from error

    def encode(self) -> bytes:
        """The 8 or 20 bytes of a record's host field."""
        return self.ip + struct.pack(">i", self.port)

    def __str__(self) -> str:
        address = ipaddress.ip_address(self.ip)
        return f"{address}:{self.port}" if address.version == 4 else f"[{address}]:{self.port}"


def offset_message_id(store_host: bytes, offset: PhysicalOffset) -> str:
    """32 hex digits (IPv4) or 56 (IPv6). `store_host`: the 8 or 20 bytes of a record's host field (`HostAddress.encode`)."""
    return (store_host + offset.to_bytes(8, "big")).hex().upper()


def parse_offset_message_id(text: str) -> tuple[HostAddress, PhysicalOffset]:
    """Decodes it. Raises InvalidParameter."""
    layouts = {32: _OFFSET_ID_V4, 56: _OFFSET_ID_V6}
    try:
        ip, port, offset = layouts[len(text)].unpack(bytes.fromhex(text))
    except (KeyError, ValueError, struct.error) as error:  # struct.error: blanks among the digits
        raise InvalidParameter("message id", text[:64], "32 or 56 hex digits") from error
    if not 0 <= port <= 65535 or offset < 0:
        raise InvalidParameter("message id", text, "an address with a port up to 65535 and an offset of at least 0")
    return HostAddress(ip, port), PhysicalOffset(offset)


def unique_id_prefix(ip: bytes, pid: int, salt: int) -> bytes:
    """The 10 bytes of unique ids that are the same for one process: ip (last four of IPv6), pid, salt."""
    return ip[-4:] + struct.pack(">HI", pid & 0xFFFF, salt & 0xFFFFFFFF)


def unique_id(prefix: bytes, month_ms: int, counter: int) -> str:
    """32 hex digits. `month_ms`: milliseconds since the first of the month, UTC; `counter`: the low 16 bits count."""
    return (prefix + struct.pack(">IH", month_ms & 0xFFFFFFFF, counter & 0xFFFF)).hex().upper()
