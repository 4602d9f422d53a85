# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=True, nonecheck=False
"""Consume-queue units: selects those for a pull, by tags or by a condition, within its limits. Pure."""

from __future__ import annotations

from typing import Any

import cython

from .codes import (
    ANY_OUTCOME,
    EQUAL,
    FILLER_SIZE,
    GREATER,
    LESS,
    NAME_END,
    UNIT_BYTES,
    UNIT_SIZE_AT,
    UNIT_TAGS_AT,
    VALUE_END,
)
from .primitives import OFFSET_MAX, check_lengths, find_byte, find_topic, get32, get64, topic_size
from .runs import is_home_of

_NEEDS_MAX = cython.declare(cython.int, 64)  # how many of a condition's needs are tested before the condition itself


@cython.final
@cython.cclass
class UnitSelector:
    """Walks consume-queue units for one pull: tests tag codes, limits the answer, joins adjacent records.

    After `select`, `examined` units were examined and `matched` of them were selected, `size_bytes` together, as the
    physical ranges runs[2 i], runs[2 i + 1] for i < `run_count`. Then `stranger` checks that the units' records are their
    own; `checked` runs are checked.
    """

    runs = cython.declare(object, visibility="readonly")  # memoryview of int64
    run_count = cython.declare(cython.int, visibility="readonly")
    checked = cython.declare(cython.int, visibility="readonly")
    examined = cython.declare(cython.int, visibility="readonly")
    matched = cython.declare(cython.int, visibility="readonly")
    size_bytes = cython.declare(cython.longlong, visibility="readonly")
    _runs: cython.longlong[::1]
    _marks: cython.longlong[::1]  # per run: index and size of its first unit, index and size of its last
    _capacity: cython.int
    _codes: cython.longlong[::1]
    _values: cython.longlong[::1]  # per name: begin and end of its value in the records; -1: it has none
    _need_count: cython.int
    _need_places: cython.longlong[::1]
    _need_outcomes: cython.longlong[::1]
    _need_numbers: cython.double[::1]
    _need_texts: list[bytes | None]  # None: compares as a number

    def __init__(self, runs_max: int = 4096) -> None:
        self.runs = memoryview(bytearray(16 * runs_max)).cast("q")
        self._runs = self.runs
        self._marks = memoryview(bytearray(32 * runs_max)).cast("q")
        self._capacity = runs_max
        self._codes = memoryview(bytearray(8 * 16)).cast("q")
        self._values = memoryview(bytearray(16 * 16)).cast("q")
        self._need_places = memoryview(bytearray(8 * _NEEDS_MAX)).cast("q")
        self._need_outcomes = memoryview(bytearray(8 * _NEEDS_MAX)).cast("q")
        self._need_numbers = memoryview(bytearray(8 * _NEEDS_MAX)).cast("d")

    @cython.cfunc
    def _want(self, codes: tuple[int, ...]):
        """Sorts several codes, for a search."""
        i: cython.Py_ssize_t
        ordered: list[int] = sorted(codes)
        if len(ordered) > len(self._codes):
            self._codes = memoryview(bytearray(8 * len(ordered))).cast("q")
        for i in range(len(ordered)):
            self._codes[i] = ordered[i]

    @cython.cfunc
    @cython.inline
    def _is_wanted(self, code: cython.longlong, count: cython.Py_ssize_t) -> cython.bint:
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = count
        middle: cython.Py_ssize_t
        while low < high:
            middle = (low + high) // 2
            if self._codes[middle] < code:
                low = middle + 1
            else:
                high = middle
        return low < count and self._codes[low] == code

    def select(
        self,
        units: cython.const[cython.uchar][::1],
        begin: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        codes: tuple[int, ...],
        messages_max: cython.int,
        bytes_max: cython.longlong,
        offset_limit: cython.longlong,
    ) -> cython.int:
        """Selects units from units[begin:end] (bytes, whole units) whose tags code is in `codes` (empty: all).

        A code below all hashes is the address of a unit in RocketMQ's extension, which is not read here: it counts as a
        match. Skips filler at a queue's beginning. Stops before filler of a gap, before a damaged unit whose offset is
        negative, before a record that ends past `offset_limit` (the confirm offset), at `messages_max`, or before
        `bytes_max` would be exceeded (the first record is always selected). Returns `matched`. Raises ValueError if [begin,
        end) is not within `units`.
        """
        at: cython.Py_ssize_t = begin
        offset: cython.longlong
        size: cython.longlong
        code: cython.longlong
        total: cython.longlong = 0
        matched: cython.int = 0
        examined: cython.int = 0
        count: cython.int = 0
        last_end: cython.longlong = -1
        code_count: cython.Py_ssize_t = len(codes)
        first: cython.longlong = codes[0] if code_count else 0
        runs: cython.longlong[::1] = self._runs
        marks: cython.longlong[::1] = self._marks
        if not 0 <= begin <= end <= len(units):
            raise ValueError("outside the units")
        if offset_limit < 0:  # nothing is below it; and minus a size it still fits in 64 bits
            offset_limit = 0
        if code_count > 1:
            self._want(codes)
        while at + UNIT_BYTES <= end and matched < messages_max:
            offset = get64(units, at)
            size = get32(units, at + UNIT_SIZE_AT)
            if size == FILLER_SIZE and offset == 0:  # filler: this queue began at a higher offset
                examined += 1
                at += UNIT_BYTES
                continue
            if size == FILLER_SIZE or offset < 0 or offset > offset_limit - size:
                break
            if code_count:
                code = get64(units, at + UNIT_TAGS_AT)
                if code != first and (code_count == 1 or not self._is_wanted(code, code_count)) and code >= -0x80000000:
                    examined += 1
                    at += UNIT_BYTES
                    continue
            if matched and total + size > bytes_max:
                break
            if offset == last_end:
                runs[2 * count - 1] = offset + size
            else:
                if count == self._capacity:
                    break
                runs[2 * count] = offset
                runs[2 * count + 1] = offset + size
                marks[4 * count] = examined
                marks[4 * count + 1] = size
                count += 1
            marks[4 * count - 2] = examined
            marks[4 * count - 1] = size
            last_end = offset + size
            total += size
            matched += 1
            examined += 1
            at += UNIT_BYTES
        self.run_count = count
        self.checked = 0
        self.examined = examined
        self.matched = matched
        self.size_bytes = total
        return matched

    def select_where(
        self,
        units: cython.const[cython.uchar][::1],
        records: Any,
        base: cython.longlong,
        names: tuple[bytes, ...],
        needs: tuple[tuple[int, int, Any], ...],
        test: Any,
        messages_max: cython.int,
        bytes_max: cython.longlong,
        has_time: Any,
    ) -> cython.int:
        """Selects units whose records have properties that pass: test([value of each name, or None]) is True.

        `needs` (model/sql92/needs): what the values must fulfil at least; a record that does not is skipped without a call
        of `test`. `records`: the log's bytes from physical offset `base` on. Stops where a record is not whole within them,
        at `messages_max`, before `bytes_max` would be exceeded (the first record is always selected), and when
        `has_time()`, called every few records, says no. A record that cannot be read is selected, so that its reader gets
        the error. Filler and damaged units are handled as in `select`. Returns `matched`. Raises ValueError if `base` is
        not a position of as many bytes, or a need refers to none of the `names`.
        """
        buf: cython.const[cython.uchar][::1] = records
        at: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = len(units)
        length: cython.Py_ssize_t = len(buf)
        offset: cython.longlong
        size: cython.longlong
        total: cython.longlong = 0
        matched: cython.int = 0
        examined: cython.int = 0
        tested: cython.int = 0
        count: cython.int = 0
        last_end: cython.longlong = -1
        runs: cython.longlong[::1] = self._runs
        marks: cython.longlong[::1] = self._marks
        name_count: cython.Py_ssize_t = len(names)
        if base < 0 or base > OFFSET_MAX - length:
            raise ValueError("no position of a log")
        self._ask(name_count, needs)
        while at + UNIT_BYTES <= end and matched < messages_max:
            offset = get64(units, at)
            size = get32(units, at + UNIT_SIZE_AT)
            if size == FILLER_SIZE and offset == 0:
                examined += 1
                at += UNIT_BYTES
                continue
            if size == FILLER_SIZE or offset < base or offset > base + length - size:
                break
            if tested == 16:
                if not has_time():
                    break
                tested = 0
            tested += 1
            if check_lengths(buf, offset - base, offset - base + size, size) == size:
                self._find_values(buf, offset - base, names)
                if self._lacks(buf) or test(self._texts(records, name_count)) is not True:
                    examined += 1
                    at += UNIT_BYTES
                    continue
            if matched and total + size > bytes_max:
                break
            if offset == last_end:
                runs[2 * count - 1] = offset + size
            else:
                if count == self._capacity:
                    break
                runs[2 * count] = offset
                runs[2 * count + 1] = offset + size
                marks[4 * count] = examined
                marks[4 * count + 1] = size
                count += 1
            marks[4 * count - 2] = examined
            marks[4 * count - 1] = size
            last_end = offset + size
            total += size
            matched += 1
            examined += 1
            at += UNIT_BYTES
        self.run_count = count
        self.checked = 0
        self.examined = examined
        self.matched = matched
        self.size_bytes = total
        return matched

    def first_unit(self, run: cython.int) -> cython.int:
        """Which of the selected units is the first of a run. Raises ValueError if there is no such run."""
        if not 0 <= run < self.run_count:
            raise ValueError("no such run")
        return cython.cast(cython.int, self._marks[4 * run])

    def stranger(
        self,
        records: cython.const[cython.uchar][::1],
        base: cython.longlong,
        topic: bytes,
        queue_id: cython.int,
        queue_offset: cython.longlong,
    ) -> cython.int:
        """Which of the selected units points to a record that is not its own; -1: none, as far as `records` go.

        `records`: the log's bytes from `base` on. `queue_offset`: of the first examined unit. Continues at run `checked`,
        and stops there before the first run that is not within `records`. Only the first and the last record of a run are
        checked: a run continues only where a unit points exactly to the end of the record before, so a damaged unit inside
        would end it.
        """
        at: cython.Py_ssize_t
        begin: cython.longlong
        end: cython.longlong
        size: cython.longlong
        while self.checked < self.run_count:
            begin = self._runs[2 * self.checked] - base
            end = self._runs[2 * self.checked + 1] - base
            if begin < 0 or end > len(records):
                break
            at = 4 * self.checked
            size = self._marks[at + 1]
            if not is_home_of(records, begin, size, begin + base, topic, queue_id, queue_offset + self._marks[at]):
                return cython.cast(cython.int, self._marks[at])
            size = self._marks[at + 3]
            if not is_home_of(
                records, end - size, size, end - size + base, topic, queue_id, queue_offset + self._marks[at + 2]
            ):
                return cython.cast(cython.int, self._marks[at + 2])
            self.checked += 1
        return -1

    @cython.cfunc
    def _ask(self, name_count: cython.Py_ssize_t, needs: tuple[tuple[int, int, Any], ...]):
        """Makes room for as many values, and stores the first _NEEDS_MAX needs."""
        i: cython.Py_ssize_t
        if 2 * name_count > len(self._values):
            self._values = memoryview(bytearray(16 * name_count)).cast("q")
        self._need_count = min(len(needs), _NEEDS_MAX)
        self._need_texts = [None] * self._need_count
        for i in range(self._need_count):
            place, outcomes, operand = needs[i]
            if not 0 <= place < name_count:
                raise ValueError("a need of no name")
            self._need_places[i] = place
            self._need_outcomes[i] = outcomes
            if isinstance(operand, bytes):
                self._need_texts[i] = operand
            else:
                self._need_numbers[i] = operand

    @cython.cfunc
    def _find_values(self, buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, names: tuple[bytes, ...]):
        """Finds the values of these properties of the proven record at `at`.

        As in `decode_properties`: an entry without a value does not count, and of repeated names the last one counts.
        """
        entry: cython.Py_ssize_t = find_topic(buf, at)
        entry += topic_size(buf, at, entry) + 2
        end: cython.Py_ssize_t = at + get32(buf, at)
        stop: cython.Py_ssize_t
        separator: cython.Py_ssize_t
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        count: cython.Py_ssize_t = len(names)
        name: bytes
        values: cython.longlong[::1] = self._values
        for i in range(count):
            values[2 * i] = -1
        while entry < end:
            stop = find_byte(buf, entry, end, VALUE_END)
            separator = find_byte(buf, entry, stop, NAME_END)
            if separator + 1 < stop:
                for i in range(count):
                    name = names[i]
                    if len(name) != separator - entry:
                        continue
                    k = 0
                    while entry + k < separator and name[k] == buf[entry + k]:
                        k += 1
                    if entry + k == separator:
                        values[2 * i] = separator + 1
                        values[2 * i + 1] = stop
                        break
            entry = stop + 1

    @cython.cfunc
    def _texts(self, records: Any, count: cython.Py_ssize_t) -> list[bytes | None]:
        """The values that were found."""
        i: cython.Py_ssize_t
        texts: list[bytes | None] = [None] * count
        for i in range(count):
            if self._values[2 * i] >= 0:
                texts[i] = bytes(records[self._values[2 * i] : self._values[2 * i + 1]])
        return texts

    @cython.cfunc
    def _lacks(self, buf: cython.const[cython.uchar][::1]) -> cython.bint:
        """Whether the found values fail a need."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        end: cython.Py_ssize_t
        outcome: cython.longlong
        text: bytes
        for i in range(self._need_count):
            begin = self._values[2 * self._need_places[i]]
            if begin < 0:
                return True
            end = self._values[2 * self._need_places[i] + 1]
            if self._need_texts[i] is None:
                outcome = _compared_with_number(buf, begin, end, self._need_numbers[i])
            else:
                text = self._need_texts[i]
                outcome = 5  # different texts count as both LESS and GREATER: our code for NOT EQUAL
                if len(text) == end - begin:
                    k = 0
                    while begin + k < end and text[k] == buf[begin + k]:
                        k += 1
                    if begin + k == end:
                        outcome = EQUAL
            if not outcome & self._need_outcomes[i]:
                return True
        return False


@cython.cfunc
@cython.inline
def _compared_with_number(
    buf: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t, number: cython.double
) -> cython.longlong:
    """Compares the text buf[begin:end] as a number: 1 = less, 2 = equal, 4 = greater.

    All three if it is not a small integer: then `test` decides.
    """
    at: cython.Py_ssize_t = begin
    value: cython.longlong = 0
    exact: cython.double
    if buf[at] == 43 or buf[at] == 45:
        at += 1
    if at == end or end - at > 15:
        return ANY_OUTCOME
    while at < end:
        if buf[at] < 48 or buf[at] > 57:
            return ANY_OUTCOME
        value = 10 * value + (buf[at] - 48)
        at += 1
    exact = -value if buf[begin] == 45 else value
    if exact < number:
        return LESS
    return EQUAL if exact == number else GREATER
