"""Narrows a read by the query's filters: topics, queues, offsets, times, tags. Pure.

Only exact filters are taken over from Spark: a queue's place and its tags. A time narrows the read, by the brokers'
look-up, but Spark filters again: store times follow the broker's clock, which may be set back. So the look-up extends
TIME_SLACK_MS further than requested on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from ...model.subscription import TAG_EXPRESSION_LENGTH_MAX, Subscription
from .offsets import OFFSET_MAX, QueueKey, QueueRange

TIME_SLACK_MS: Final = 60_000
TAGS_PUSHED_MAX: Final = 256

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Predicate:
    """One filter: `column operator value`; operator: = < <= > >= in. `value` of "in": a tuple."""

    column: str
    operator: str
    value: object


@dataclass(frozen=True, slots=True)
class Narrowed:
    """What remains to be read.

    None: not narrowed. Offsets: [offset_begin, offset_end); times: ms since the epoch, widened: [stored_begin_ms,
    stored_end_ms). `tags`: the only wanted ones.
    """

    topics: frozenset[str] | None = None
    brokers: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    queue_id_begin: int = 0
    queue_id_end: int = OFFSET_MAX
    offset_begin: int = 0
    offset_end: int = OFFSET_MAX
    stored_begin_ms: int | None = None
    stored_end_ms: int | None = None
    tags: frozenset[str] | None = None

    def wants(self, key: QueueKey) -> bool:
        """Whether a queue may have wanted rows."""
        return (
            (self.topics is None or key.topic in self.topics)
            and (self.brokers is None or key.broker in self.brokers)
            and (self.queue_ids is None or key.queue_id in self.queue_ids)
            and self.queue_id_begin <= key.queue_id < self.queue_id_end
        )

    def cut(self, item: QueueRange) -> QueueRange:
        """The part of a range that may have wanted rows; an empty one at its start if there is none."""
        start = min(max(item.start, self.offset_begin), item.end)
        end = max(start, min(item.end, self.offset_end))
        return replace(item, start=start, end=end)

    @property
    def tag_expression(self) -> str | None:
        """The tags as an expression for brokers."""
        return None if self.tags is None else " || ".join(sorted(self.tags))


def narrow(predicates: Iterable[Predicate | None], *, may_filter_tags: bool) -> tuple[Narrowed, list[bool]]:
    """(what remains, for each predicate whether Spark need not test it). None: a filter that is not understood here.

    `may_filter_tags`: the brokers evaluate no other expression.
    """
    narrowed = Narrowed()
    done: list[bool] = []
    for predicate in predicates:
        after, is_done = (narrowed, False) if predicate is None else _take(narrowed, predicate, may_filter_tags)
        narrowed = after
        done.append(is_done)
    return narrowed, done


def _take(narrowed: Narrowed, predicate: Predicate, may_filter_tags: bool) -> tuple[Narrowed, bool]:
    if predicate.column == "topic":
        return _take_names(narrowed, predicate, "topics", narrowed.topics)
    if predicate.column == "broker":
        return _take_names(narrowed, predicate, "brokers", narrowed.brokers)
    if predicate.column == "queueId":
        return _take_queue_ids(narrowed, predicate)
    if predicate.column == "queueOffset" and (span := _span(predicate)) is not None:
        begin, end = max(narrowed.offset_begin, span[0]), min(narrowed.offset_end, span[1])
        return replace(narrowed, offset_begin=begin, offset_end=end), True
    if predicate.column == "storeTimestamp":
        return _take_time(narrowed, predicate), False
    if predicate.column == "tags" and may_filter_tags:
        return _take_tags(narrowed, predicate)
    return narrowed, False


def _take_names(
    narrowed: Narrowed, predicate: Predicate, name: str, before: frozenset[str] | None
) -> tuple[Narrowed, bool]:
    wanted = _texts(predicate)
    if wanted is None:
        return narrowed, False
    after = wanted if before is None else before & wanted
    return (replace(narrowed, topics=after) if name == "topics" else replace(narrowed, brokers=after)), True


def _take_queue_ids(narrowed: Narrowed, predicate: Predicate) -> tuple[Narrowed, bool]:
    if predicate.operator == "in":
        values = predicate.value
        if not isinstance(values, tuple) or any(type(value) is not int for value in values):
            return narrowed, False
        wanted = frozenset(values)
        return replace(narrowed, queue_ids=wanted if narrowed.queue_ids is None else narrowed.queue_ids & wanted), True
    span = _span(predicate)
    if span is None:
        return narrowed, False
    begin, end = max(narrowed.queue_id_begin, span[0]), min(narrowed.queue_id_end, span[1])
    return replace(narrowed, queue_id_begin=begin, queue_id_end=end), True


def _take_time(narrowed: Narrowed, predicate: Predicate) -> Narrowed:
    if not isinstance(predicate.value, datetime) or predicate.value.tzinfo is None:
        return narrowed
    at_ms = int((predicate.value - _EPOCH).total_seconds() * 1000)
    begin, end = narrowed.stored_begin_ms, narrowed.stored_end_ms
    if predicate.operator in ("=", ">", ">="):
        begin = max(0, at_ms - TIME_SLACK_MS, begin or 0)
    if predicate.operator in ("=", "<", "<="):
        latest = at_ms + TIME_SLACK_MS
        end = latest if end is None else min(end, latest)
    return replace(narrowed, stored_begin_ms=begin, stored_end_ms=None if end is None else max(0, end))


def _take_tags(narrowed: Narrowed, predicate: Predicate) -> tuple[Narrowed, bool]:
    wanted = _texts(predicate)
    if wanted is None:
        return narrowed, False
    after = wanted if narrowed.tags is None else narrowed.tags & wanted
    if not after or len(after) > TAGS_PUSHED_MAX or not _is_expressible(after):
        return narrowed, False
    return replace(narrowed, tags=after), True


def _is_expressible(tags: frozenset[str]) -> bool:
    """Whether a tag expression can mean exactly these: not if a tag contains "||", or begins or ends with a blank."""
    if sum(len(tag) + 4 for tag in tags) > TAG_EXPRESSION_LENGTH_MAX:
        return False
    return all(tag.isprintable() and "||" not in tag and Subscription.parse("", tag).tags == {tag} for tag in tags)


def _texts(predicate: Predicate) -> frozenset[str] | None:
    values = (
        (predicate.value,) if predicate.operator == "=" else predicate.value if predicate.operator == "in" else None
    )
    if not isinstance(values, tuple):
        return None
    texts = frozenset(value for value in values if isinstance(value, str))
    return texts if len(texts) == len(set(values)) else None


def _span(predicate: Predicate) -> tuple[int, int] | None:
    """The integers [begin, end) that pass."""
    value = predicate.value
    if type(value) is not int:
        return None
    spans = {
        "=": (value, value + 1),
        ">": (value + 1, OFFSET_MAX),
        ">=": (value, OFFSET_MAX),
        "<": (0, value),
        "<=": (0, value + 1),
    }
    return spans.get(predicate.operator)
