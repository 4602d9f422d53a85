"""Each family is named by Prometheus's conventions, once, and says all that its page needs."""

from __future__ import annotations

import re

import pytest

from zenitmq.metrics.family import Family, FamilyKind
from zenitmq.metrics.table import BY_NAME, FAMILIES

COMMON = {"cluster", "node_type", "node_id", "le"}


def test_each_name_is_there_once() -> None:
    names = [family.name for family in FAMILIES]
    assert len(names) == len(BY_NAME) > 80
    old = [family.rocketmq for family in FAMILIES if family.rocketmq]
    assert len(old) == len(set(old)) > 25


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_row_keeps_to_the_conventions(family: Family) -> None:
    assert re.fullmatch(r"(zenit|process)_[a-z0-9_]+", family.name)
    assert (family.kind is FamilyKind.COUNTER) == family.name.endswith("_total")
    assert family.name.removesuffix("_total").endswith(family.unit)
    assert family.kind is not FamilyKind.HISTOGRAM or family.unit, "a histogram is of times or sizes"
    assert not re.search(r"_(ms|millis|milliseconds|us|kb|mb|percent)(_|$)", family.name)
    assert family.exporters
    assert len(set(family.labels)) == len(family.labels)
    assert not COMMON & set(family.labels)
    assert family.help[0].isupper() or family.help[0].isdigit()
    assert not family.help.endswith(".")
    assert not family.rocketmq or re.fullmatch(r"rocketmq_[a-z_]+", family.rocketmq)
    assert family.rocketmq_scale in (1, 1000)
