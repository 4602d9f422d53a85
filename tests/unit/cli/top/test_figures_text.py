"""The tables fit the terminal, and bad news is marked."""

from __future__ import annotations

import pytest
from top_kit import broker, cluster, event, group, statistics, topic

from zenitmq.cli.top.figures import ClusterFigures, TopicOrGroup
from zenitmq.cli.top.figures_text import KEYS, lines_of, shares


@pytest.fixture
def figures() -> ClusterFigures:
    """Two brokers, of which one is silent, 30 topics, and a group."""
    found = ClusterFigures()
    found.on_cluster(0, cluster(broker("a:1"), broker("b:1", "broker-b")))
    found.on_silent("b:1", "no reply from b:1")
    found.on_topics([f"t{number:02}" for number in range(30)])
    found.on_groups(["g", "hidden"])
    for at_ms, sent in ((0, 0), (2_000, 24_690)):
        found.on_statistics(at_ms, "a:1", statistics(sent=sent))
        found.on_topic(at_ms, topic("t07", sent))
        found.on_group(at_ms, group("g", sent, sent // 2, of_topic="t07", lag_seconds=1.5))
    found.on_refused(2_000, TopicOrGroup(True, "hidden"), "user 'u' may not get on group:hidden")
    found.on_events({"events": [event(1), event(2, "disk_failed", "critical")], "silent": [], "refused": {}})
    return found


def test_the_tables_say_all(figures: ClusterFigures) -> None:
    lines = lines_of(figures.document(1_000))
    texts = [line.text for line in lines]
    assert texts[0] == (
        "zenit at 1970-01-01T00:00:01.000Z; 12,345 in/s, 0 out/s; 29 topics not asked yet; sorted by in"
    )
    (healthy,) = (text.split() for text in texts if text.startswith("broker-a "))
    assert healthy[:8] == ["broker-a", "a:1", "master", "1", "yes", "0", "B", "12,345"]
    assert "25%" in healthy
    (topic_row,) = (text.split() for text in texts if text.startswith("t07 "))
    assert topic_row == ["t07", "12,345", "6,172", "12345", "2.0", "s"]
    (group_row,) = (text.split() for text in texts if text.startswith("g "))
    assert group_row == ["g", "1", "12,345", "6,172", "12345", "1.5", "s", "+6,172.5/s", "2.0", "s"]
    assert "... 10 more" in texts
    assert KEYS not in texts
    bad = [line.text for line in lines if line.mark == "bad"]
    assert [text.split()[0] for text in bad] == ["broker-b", "hidden", "2026-11-26T20:00:02.000Z"]
    assert bad[0].split()[2] == "silent"
    assert bad[0].endswith("no reply from b:1")


@pytest.mark.parametrize("height", [24, 30, 50])
def test_they_fit_the_terminal(height: int, figures: ClusterFigures) -> None:
    figures.on_seen("cluster", "cannot reach it")
    lines = lines_of(figures.document(1_000), keys=KEYS, lines=height)
    assert len(lines) <= height
    assert [line.text for line in lines[1:3]] == [KEYS, "cluster: cannot reach it"]
    assert lines[-1].text.split()[0] == "2026-11-26T20:00:02.000Z"


def test_of_nothing_there_are_the_heads() -> None:
    texts = [line.text.split() for line in lines_of(ClusterFigures().document(1_000))]
    assert [words[0] for words in texts if words] == ["no", "broker", "topic", "group"]


@pytest.mark.parametrize(
    ("wanted", "lines", "got"),
    [
        ([3, 20, 20], 50, [3, 20, 20]),
        ([3, 20, 20], 23, [3, 10, 10]),
        ([20, 1, 20], 9, [4, 1, 4]),
        ([9, 9, 9], 0, [2, 2, 2]),
        ([0, 1, 0], -5, [0, 1, 0]),
    ],
)
def test_the_longest_tables_give_way(wanted: list[int], lines: int, got: list[int]) -> None:
    assert shares(wanted, lines) == got
