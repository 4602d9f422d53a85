"""What a query asks for is refused where no message can meet it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from zenitmq import Admin
from zenitmq.client.administration.message_query import Criteria, criteria_of
from zenitmq.model.clock import datetime_of_ms
from zenitmq.model.errors import InvalidParameter
from zenitmq.model.queue import MessageQueue

MOMENT = datetime_of_ms(1_700_000_000_000)
NAMES = ("key", "message_id", "text", "since", "until", "queue", "from_offset", "until_offset")


def criteria(**given: Any) -> Criteria:
    return criteria_of("orders", **(dict.fromkeys(NAMES) | given))


def test_bounds_in_the_wrong_order_are_refused() -> None:
    queue = MessageQueue("orders", "broker-a", 0)
    with pytest.raises(InvalidParameter, match=r"until = .*not before since"):
        criteria(since=MOMENT, until=MOMENT - timedelta(seconds=1))
    with pytest.raises(InvalidParameter, match=r"until_offset = '4': .*not below from_offset \(5\)"):
        criteria(queue=queue, from_offset=5, until_offset=4)
    assert criteria(since=MOMENT, until=MOMENT).begin_ms == criteria(until=MOMENT).end_ms
    assert criteria(queue=queue, from_offset=5, until_offset=5).queue_end == 5


@pytest.mark.parametrize(
    ("name", "value"),
    [("since", 5), ("since", "10m"), ("until", "10m"), ("queue", 3), ("queue", "broker-a:3"), ("from_offset", "3")],
)
def test_a_condition_of_another_type_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidParameter, match=name):
        criteria(**({"queue": MessageQueue("orders", "broker-a", 0)} | {name: value}))


def test_no_key_and_no_id_find_nothing_rather_than_everything() -> None:
    with Admin("127.0.0.1:1") as admin:
        for call, name in ((admin.query_by_key, "key"), (admin.query_by_id, "message_id")):
            with pytest.raises(InvalidParameter, match=name):
                call("orders", None)  # type: ignore[arg-type]
