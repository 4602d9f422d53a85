"""The kernel, the only code that touches every record: encodes, checks, stamps, scans, selects, indexes, decodes. Pure.

If it was compiled (setup.py), Python imports the extension beside this file instead of this file. Both pass the same tests,
and `COMPILED` says which one runs. The parts are plain loops over memoryviews, annotated for Cython's pure-Python mode.
Compiled code does not check bounds: every function that takes bytes from outside first proves each inner length.
"""

from __future__ import annotations

from typing import Any, Final

from .columns import BytesColumn as BytesColumn
from .columns import ColumnFiller as ColumnFiller
from .encoding import Accumulator as Accumulator
from .encoding import batch_sizes as batch_sizes
from .encoding import check_texts as check_texts
from .encoding import encode_blank as encode_blank
from .encoding import encode_record as encode_record
from .encoding import plain_columns as plain_columns
from .index import hash_text as hash_text
from .index import index_insert as index_insert
from .index import index_key_hash as index_key_hash
from .index import index_search as index_search
from .index import index_topic_hash as index_topic_hash
from .inner_batches import accepted_messages as accepted_messages
from .inner_batches import batch_records as batch_records
from .inner_batches import plain_batch_count as plain_batch_count
from .inner_batches import unwrap_batches as unwrap_batches
from .inner_batches import wrap_batch as wrap_batch
from .lights import light_units as light_units
from .lights import write_light_offsets as write_light_offsets
from .messages import MessageBatch as MessageBatch
from .messages import StoredMessage as StoredMessage
from .messages import _unpickled as _unpickled
from .messages import decode_batch as decode_batch
from .messages import decode_record as decode_record
from .runs import RunKernel as RunKernel
from .runs import WrittenRun as WrittenRun
from .runs import ended_waits as ended_waits
from .runs import is_record_of as is_record_of
from .runs import whole_records as whole_records
from .runs import why_refused as why_refused
from .sequences import sequenced_stretches as sequenced_stretches
from .sequences import write_sequences as write_sequences
from .units import UnitSelector as UnitSelector

COMPILED: Final = False

_named: Any
for _named in (
    StoredMessage,
    MessageBatch,
    _unpickled,
):  # a pickled message names the kernel, whether it was compiled or not
    _named.__module__ = __name__
