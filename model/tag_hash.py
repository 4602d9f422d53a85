"""Java's `String.hashCode`, which RocketMQ uses for tags and index keys: h = 31 h + UTF-16 code unit, 32-bit, signed. Pure."""

from __future__ import annotations


def java_hash(text: str) -> int:
    """The hash as a signed 32-bit integer."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def tags_code(tags: str | None) -> int:
    """The tagsCode of a consume-queue unit: the hash of the tags text, 0 if there is none."""
    return java_hash(tags) if tags else 0
