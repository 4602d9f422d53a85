"""What a soak tells: series by the lives of a process, the page, the picture, the section of the documentation."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest
from soak import page, picture
from soak.figures import BEGIN, END, put_into, section
from soak.message_account import MessageAccount
from soak.process_samples import Life, growing
from soak.records import OK, Away, Handled, Sent
from soak.topics import copies, rules

WARM_UP_S = 1800.0


def life(name: str, number: int = 1, *, begin_s: int = 0, end_s: int = 5400, per_h: float = 0.0) -> Life:
    found = Life(name, "broker", number, 1, "1", "python")
    for at_s in range(begin_s, end_s, 10):
        found.add(at_s, {"memory_kib": 50_000 + per_h * at_s / 3600, "descriptors": 60})
    return found


@pytest.fixture
def account() -> dict[str, Any]:
    messages = MessageAccount(rules(stream=True))
    messages.take(Sent("copied", "s", 1, 0.0, 1.0, OK))
    messages.take(Away("broker-a-1", "killed as master", 1_000_000.0, 1_060_000.0))
    for at_ms in (1_000_100.0, 1_000_200.0):
        messages.take(Handled("pushers", "m", "work/a/0", 1, "s", 1, at_ms, 0.0, 0.0, 0))
    lives = [life("broker-a-1", 1, end_s=900), life("broker-a-1", 2, begin_s=960, per_h=100.0), life("namesrv-1")]
    documents = [each.document(WARM_UP_S) for each in lives]
    return {
        "soak": 1,
        "command": "python -m tests.soak --hours 1.5 --seed 1",
        "hours": 1.5,
        "began_ms": 0,
        "seconds": 5400.0,
        "warm_up_s": WARM_UP_S,
        "ended": True,
        "interrupted": False,
        "passed": True,
        "growing": growing(documents),
        "messages": messages.document(),
        "lives": documents,
        "environment": {"revision": "abc", "cores": 2, "cpu": "a processor"},
    }


def test_a_slope_is_told_of_each_life_from_the_end_of_its_own_warm_up_on() -> None:
    assert life("a").window("memory_kib", WARM_UP_S)[0][0] == WARM_UP_S
    assert life("a", begin_s=2000).window("memory_kib", WARM_UP_S)[0][0] == 2000 + WARM_UP_S
    assert life("a", begin_s=2000, end_s=2900).window("memory_kib", WARM_UP_S) == []
    assert life("a").window("blocks", WARM_UP_S) == []


def test_what_grows_is_named_with_its_life(account: dict[str, Any]) -> None:
    assert account["growing"] == ["broker-a-1 (life 2): memory_kib +100.0 an hour"]


def test_the_page_and_the_picture_tell_of_every_process(account: dict[str, Any]) -> None:
    drawn = picture.picture(account)
    root = ET.fromstring(drawn)
    assert len(root.findall(".//{*}polyline")) == 6  # three lives, two metrics
    assert len(root.findall(".//{*}rect[@class='away']")) == len(picture.COLUMNS)
    told = page.page(account, drawn)
    assert "Soak of seed 1: passed" in told
    assert '<span class="wrong">+100.0 (+100.0 to +100.0) grows</span>' in told
    assert "broker away" in told


def test_without_a_stream_the_readers_of_copies_read_its_topic() -> None:
    handled = Handled("copy-readers", "m", "stream/a/0", 1, "stream", 1, 1.0, 0.0, 0.0, 0)
    for stream, topic in ((True, "copied"), (False, "stream")):
        assert copies(stream=stream) == topic
        messages = MessageAccount(rules(stream=stream))
        messages.take(Sent("stream", "stream", 1, 0.0, 1.0, OK))
        assert messages.document()["lost"] == 1
        messages.take(handled)
        assert messages.document()["lost"] == 0


def test_the_section_goes_between_its_marks(account: dict[str, Any]) -> None:
    figures = section(account)
    assert "| namesrv-1 | 1 | 90 | 0 | 0 | - | - | - | - | - |" in figures
    assert put_into(f"before\n{BEGIN}\nold\n{END}\nafter\n", figures) == f"before\n{BEGIN}\n{figures}{END}\nafter\n"
    with pytest.raises(ValueError, match="figures of a soak"):
        put_into("no marks", figures)
