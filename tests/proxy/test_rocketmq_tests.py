"""Some of RocketMQ's own integration tests, unchanged; all of them: python tests/rocketmq_tests.py, docs/rocketmq-tests.md."""

from __future__ import annotations

import pytest
from classic_kit import running_front
from proxy_clients import needs_client
from rocketmq_tests import CONSUME_MS, NAME, PAGE, has_tests, reasons_of, run_classes, table

from zenitmq.testing import LocalCluster

pytestmark = pytest.mark.timeout(120)
CLIENT = "org.apache.rocketmq.test.client"
CLASSES = (
    f"{CLIENT}.producer.exception.msg.ChinaPropIT",
    f"{CLIENT}.producer.querymsg.QueryMsgByIdIT",
    f"{CLIENT}.producer.oneway.OneWaySendIT",
    f"{CLIENT}.consumer.pop.PopMessageAndForwardingIT",
)


@needs_client(NAME, is_there=has_tests())
def test_tests_of_rocketmqs_pass(cluster: LocalCluster) -> None:
    with running_front(cluster.namesrv) as front:
        outcomes = run_classes(CLASSES, front.address, timeout_s=CONSUME_MS / 1000 + 60)
    assert {one[1] for one in outcomes} == set(CLASSES)
    assert not [one for one in outcomes if one[0] == "failed"]


def test_the_table_keeps_the_reasons_of_the_one_before() -> None:
    rows = [
        ("passed", "org.apache.rocketmq.test.a.BIT", "one", "5 ms"),
        ("failed", "org.apache.rocketmq.test.a.BIT", "two", "x"),
    ]
    before = "| `a.BIT` | 0 | 2 | it cannot |\n"
    assert table(rows, reasons_of(before)).splitlines()[2:] == ["| `a.BIT` | 1 | 1 | it cannot |"]


def test_each_test_that_fails_has_its_reason_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 40
    assert not [name for name, _, failed, why in rows if failed.strip() != "0" and not why.strip()]
