"""Bits of a record's sysFlag (RocketMQ 5.x; docs/formats/record.md) and of a pull request's. Pure."""

from __future__ import annotations

from typing import Final

COMPRESSED: Final = 0x1
MULTI_TAGS: Final = 0x2
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
TRANSACTION_MASK: Final = 0xC
BORN_HOST_IPV6: Final = 0x10
STORE_HOST_IPV6: Final = 0x20
NEED_UNWRAP: Final = 0x40
INNER_BATCH: Final = 0x80
COMPRESSION_MASK: Final = 0x700
COMPRESSION_ZLIB: Final = 0x300  # 0 in the bits means zlib too
COMPRESSION_LZ4: Final = 0x100
COMPRESSION_ZSTD: Final = 0x200

SEQUENCED: Final = 1 << 30
"""Ours, set by the broker: the record counts in its producer's sequence (property PSEQ, model.sequence). In the flags of a
run: one of its records has it.
"""

NOT_COPIED: Final = TRANSACTION_MASK | SEQUENCED
"""Bits that a copy which the broker makes of a record does not get."""

ENDS_WAIT: Final = 1 << 31
"""Not in a record, only in the flags of a run: one of its records ends the wait of another. (The prepared transaction
offset of such a record is -1 - the physical offset of the other.)
"""

LIGHT: Final = 1 << 29
"""Not in a record, only in the flags of a run: one of its records names light queues (model/topics/light_queues)."""

BITS: Final[tuple[tuple[int, str], ...]] = (
    (COMPRESSED, "body is compressed; bits 8-10 say how: 0 or 3 zlib, 1 lz4, 2 zstd"),
    (MULTI_TAGS, "several tags"),
    (TRANSACTION_PREPARED, "half message"),
    (TRANSACTION_COMMIT, "committed transaction"),
    (TRANSACTION_ROLLBACK, "rolled back transaction (both bits)"),
    (BORN_HOST_IPV6, "born host is 16 + 4 bytes"),
    (STORE_HOST_IPV6, "store host is 16 + 4 bytes"),
    (NEED_UNWRAP, "body wraps inner messages that must be unwrapped"),
    (INNER_BATCH, "one record holds a batch (INNER_NUM messages)"),
    (SEQUENCED, "ours: the record counts in its producer's sequence (property PSEQ)"),
)
