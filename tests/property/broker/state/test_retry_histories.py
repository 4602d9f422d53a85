"""Whatever a group's settings: a message that always fails comes again as often as they say, then is a dead letter."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zenitmq.broker.state.group_table import group_document
from zenitmq.broker.state.retry_policy import retry_delay_ms
from zenitmq.model.redelivery import Origin, dead_letter_origin, dead_letter_properties, origin_of, redriven_properties
from zenitmq.model.redelivery import retry_properties as retried

DELAYS = st.integers(1, 10_000_000)
POLICIES: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({"type": "CUSTOMIZED"}),
    st.lists(DELAYS, min_size=1, max_size=20).map(
        lambda levels: {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": levels}}
    ),
    st.tuples(DELAYS, DELAYS, st.integers(1, 100)).map(
        lambda facts: {
            "type": "EXPONENTIAL",
            "exponentialRetryPolicy": {"initial": min(facts[:2]), "max": max(facts[:2]), "multiplier": facts[2]},
        }
    ),
)
LEVELS = st.lists(DELAYS, min_size=1, max_size=18).map(tuple)


@given(policy=POLICIES, levels=LEVELS, retries_max=st.integers(0, 60))
def test_a_message_that_always_fails(policy: dict[str, Any], levels: tuple[int, ...], retries_max: int) -> None:
    base = {"groupRetryPolicy": policy, "retryMaxTimes": retries_max}
    group = group_document("g", (), base)
    delays = []
    while (delay_ms := retry_delay_ms(group, levels, reconsume_times=len(delays))) is not None:
        delays.append(delay_ms)
    assert len(delays) == retries_max
    assert all(delay > 0 for delay in delays)
    if policy["type"] == "EXPONENTIAL":
        assert delays == sorted(delays)
        assert all(delay <= policy["exponentialRetryPolicy"]["max"] for delay in delays)


NAMES = st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=8)
VALUES = st.text(st.characters(min_codepoint=32, exclude_categories=("Cs",)), min_size=1, max_size=20)


@given(sent=st.dictionaries(NAMES, VALUES), failures=st.integers(0, 5), reason=st.text(max_size=3000))
def test_it_comes_back_as_it_was_sent(sent: dict[str, str], failures: int, reason: str) -> None:
    sent = {**sent, "UNIQ_KEY": "U"}
    topic, message_id, properties = "trades", "ID0", sent
    for failure in range(failures):
        properties = retried(properties, origin_of(topic, message_id, properties))
        topic, message_id = "%RETRY%g", f"ID{failure + 1}"
    letter = dead_letter_properties(properties, origin_of(topic, message_id, properties), reason)
    origin = dead_letter_origin("DLQ", letter)
    assert origin == Origin("trades", "ID0")
    assert redriven_properties(letter, origin) == sent
