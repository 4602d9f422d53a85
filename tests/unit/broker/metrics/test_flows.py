"""Messages and bytes by topic and group: what is counted, and that what is deleted leaves."""

from __future__ import annotations

from zenitmq.broker.metrics.flows import NOBODY, Flows


def test_messages_and_bytes_are_counted_by_topic_and_group() -> None:
    flows = Flows({"g": None})
    flows.took("trades", 4, 400)
    flows.took("trades", 1, 100)
    flows.took("orders", 1, 5_000)
    flows.gave("trades", "g", 3, 300)
    flows.gave("trades", "g", 1, 100)
    assert flows.incoming == {"trades": [5, 500], "orders": [1, 5_000]}
    assert flows.outgoing == {("trades", "g"): [4, 400]}
    reading = flows.sizes.reading()
    assert (sum(reading.counts), reading.total) == (6, 5_500)
    assert reading.counts[reading.bounds.index(128)] == 5


def test_a_reader_without_a_known_group_counts_as_nobody() -> None:
    groups = {"g": None}
    flows = Flows(groups)
    for invented in range(1_000):
        flows.gave("trades", f"made-up-{invented}", 1, 10)
    assert flows.outgoing == {("trades", NOBODY): [1_000, 10_000]}
    groups["late"] = None
    flows.gave("trades", "late", 1, 10)
    assert flows.outgoing["trades", "late"] == [1, 10]


def test_what_is_deleted_leaves_at_once() -> None:
    groups = {"g": None, "h": None}
    flows = Flows(groups)
    for topic in ("a", "b"):
        flows.took(topic, 1, 1)
        for group in ("g", "h", "unknown"):
            flows.gave(topic, group, 1, 1)
    flows.forget_topic("a")
    flows.forget_topic("never was")
    assert set(flows.incoming) == {"b"}
    del groups["g"]
    flows.forget_unknown()
    assert set(flows.outgoing) == {("b", "h"), ("b", NOBODY)}
