# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=True, nonecheck=False
"""Key hashes, and the entries of an index file. Pure."""

from __future__ import annotations

import cython

from .codes import ENTRY_BYTES, ENTRY_OFFSET_AT, ENTRY_PREVIOUS_AT, ENTRY_TIME_AT, INDEX_HEADER_BYTES, SLOT_BYTES
from .primitives import MASK32, SIGN32, get32, get64, get_s32, hash_on, put32, put64


@cython.cfunc
@cython.inline
def index_hash(h: cython.uint) -> cython.uint:
    """RocketMQ's key hash for the index: abs(hashCode); abs(MIN_VALUE), which stays negative in Java, becomes 0."""
    if h & SIGN32:
        h = ((h ^ MASK32) + 1) & MASK32
        if h == SIGN32:
            return 0
    return h


def hash_text(text: bytes) -> int:
    """Java's String.hashCode of UTF-8 `text`, signed 32 bits."""
    h: cython.uint = hash_on(0, text, 0, len(text))
    return int(h) - (1 << 32) if h & SIGN32 else int(h)


def index_topic_hash(topic: bytes) -> int:
    """The hash of the text `topic#`, from which the hash of each index key of a topic continues; not yet made positive."""
    text = topic + b"#"
    return int(hash_on(0, text, 0, len(text)))


def index_key_hash(topic: bytes, key: bytes) -> int:
    """The hash of a key in the index files: of the text `topic#key`."""
    text = topic + b"#" + key
    return int(index_hash(hash_on(0, text, 0, len(text))))


def index_insert(
    file: cython.uchar[::1],
    slot_count: cython.Py_ssize_t,
    first_entry: cython.Py_ssize_t,
    hashes: cython.const[cython.uint][::1],
    offsets: cython.const[cython.longlong][::1],
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    time_difference_s: cython.int,
) -> cython.int:
    """Puts keys [begin, end) into an index file's map as entries first_entry, first_entry + 1, ...

    Returns how many slots were empty before. The caller provides room and writes the header. Raises ValueError if there is
    no such room, or there are no such keys.
    """
    i: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    entry: cython.Py_ssize_t = first_entry
    at: cython.Py_ssize_t
    previous: cython.uint
    opened: cython.int = 0
    entries: cython.Py_ssize_t = INDEX_HEADER_BYTES + SLOT_BYTES * slot_count
    view: cython.const[cython.uchar][::1] = file
    if not 0 <= begin <= end <= len(hashes) or end > len(offsets):
        raise ValueError("there are no such keys")
    if not 0 < slot_count <= len(file) or not 0 < first_entry <= len(file):
        raise ValueError("the index file has no room for these keys")
    if entries + ENTRY_BYTES * (first_entry + end - begin) > len(file):
        raise ValueError("the index file has no room for these keys")
    for i in range(begin, end):
        slot = INDEX_HEADER_BYTES + SLOT_BYTES * (hashes[i] % slot_count)
        previous = get32(view, slot)
        if previous == 0 or previous >= entry:
            previous = 0
            opened += 1
        at = entries + ENTRY_BYTES * entry
        put32(file, at, hashes[i])
        put64(file, at + ENTRY_OFFSET_AT, offsets[i])
        put32(file, at + ENTRY_TIME_AT, time_difference_s)
        put32(file, at + ENTRY_PREVIOUS_AT, previous)
        put32(file, slot, entry)
        entry += 1
    return opened


def index_search(
    file: cython.const[cython.uchar][::1],
    slot_count: cython.Py_ssize_t,
    entry_count: cython.Py_ssize_t,
    key_hash: cython.uint,
    begin_difference_s: cython.longlong,
    end_difference_s: cython.longlong,
    found_max: cython.int,
    below: cython.longlong,
    behind: cython.Py_ssize_t,
    steps_max: cython.Py_ssize_t,
) -> tuple[list[int], int, bool]:
    """Physical offsets under `below` and under a key hash, newest first, whose time difference is within [begin, end] seconds;
    the last entry examined, 0 if none was; and whether there may be more.

    `behind`: an entry that was examined before; the search continues behind it if it is one of this slot, and not below
    `below`, else with the slot's newest. It ends after `steps_max` entries. The first entry of a file counts at any time: its
    difference is counted from the file before. Raises ValueError if `file` is too short for these slots and entries.
    """
    found: list[int] = []
    entries: cython.Py_ssize_t = INDEX_HEADER_BYTES + SLOT_BYTES * slot_count
    entry: cython.Py_ssize_t
    previous: cython.Py_ssize_t
    at: cython.Py_ssize_t
    steps: cython.Py_ssize_t = 0
    examined: cython.Py_ssize_t = 0
    difference: cython.longlong
    offset: cython.longlong
    if not 0 < slot_count <= len(file) or entry_count > len(file) or entries + ENTRY_BYTES * entry_count > len(file):
        raise ValueError("the index file is shorter than its header says")
    entry = get32(file, INDEX_HEADER_BYTES + SLOT_BYTES * (key_hash % slot_count))
    if 0 < behind < entry_count:
        at = entries + ENTRY_BYTES * behind
        if get32(file, at) % slot_count == key_hash % slot_count and get64(file, at + ENTRY_OFFSET_AT) >= below:
            previous = get32(file, at + ENTRY_PREVIOUS_AT)
            entry = previous if previous < behind else 0
    while 0 < entry < entry_count:
        if steps >= steps_max or len(found) >= found_max:
            return found, examined, True
        at = entries + ENTRY_BYTES * entry
        difference = get_s32(file, at + ENTRY_TIME_AT)
        if difference < 0:
            break
        steps += 1
        examined = entry
        if get32(file, at) == key_hash and (entry == 1 or begin_difference_s <= difference <= end_difference_s):
            offset = get64(file, at + ENTRY_OFFSET_AT)
            if offset < below:
                found.append(offset)
        previous = get32(file, at + ENTRY_PREVIOUS_AT)
        if previous >= entry:  # chains lead to older entries only
            break
        entry = previous
    return found, examined, False
