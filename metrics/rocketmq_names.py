"""The names under which boards for RocketMQ 5 look for the same numbers. Pure.

Families that RocketMQ has are said a second time, with its name and its unit (milliseconds for times). Where a series
names a topic it has the labels `is_retry` and `is_system` too, as RocketMQ's have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache

from ..model.names import RETRY_PREFIX, is_system_topic
from .family import Family, Reading, Value
from .histogram import HistogramReading

TOPIC = "topic"


@cache
def renamed(family: Family) -> Family:
    """The family as RocketMQ has it."""
    labels = (*family.labels, "is_retry", "is_system") if TOPIC in family.labels else family.labels
    return replace(family, name=family.rocketmq, unit="", labels=labels)


def with_old_names(readings: Iterable[Reading]) -> Iterator[Reading]:
    """The readings, each that RocketMQ has too followed by itself under its old name."""
    for family, samples in readings:
        yield family, samples
        if not family.rocketmq:
            continue
        scale = family.rocketmq_scale
        if TOPIC in family.labels:
            at = family.labels.index(TOPIC)
            yield (
                renamed(family),
                [((*values, *_kind_of(values[at])), _scaled(value, scale)) for values, value in samples],
            )
        else:
            yield renamed(family), [(values, _scaled(value, scale)) for values, value in samples]


def _kind_of(topic: str) -> tuple[str, str]:
    return str(topic.startswith(RETRY_PREFIX)).lower(), str(is_system_topic(topic)).lower()


def _scaled(value: Value, scale: int) -> Value:
    if scale == 1:
        return value
    if isinstance(value, HistogramReading):
        return replace(value, bounds=tuple(bound * scale for bound in value.bounds), total=value.total * scale)
    return value * scale
