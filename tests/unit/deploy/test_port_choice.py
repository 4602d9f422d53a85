"""A local process takes its usual ports, or the first pair ten higher that is free."""

from __future__ import annotations

import pytest

from zenitmq.deploy.port_choice import choose_port
from zenitmq.model.errors import InvalidParameter


@pytest.mark.parametrize(
    ("taken", "chosen"),
    [
        (set(), 9876),
        ({9876}, 9886),
        ({9877}, 9886),  # the second of the pair counts too
        ({9876, 9887}, 9896),
        ({9878}, 9876),
    ],
)
def test_the_first_free_pair_ten_higher(taken: set[int], chosen: int) -> None:
    assert choose_port(9876, lambda port: port not in taken) == chosen


def test_no_free_port_is_an_error_not_a_loop() -> None:
    with pytest.raises(InvalidParameter):
        choose_port(9876, lambda _: False)


def test_a_controller_takes_the_next_port_two_higher() -> None:
    assert choose_port(9878, lambda port: port not in {9878, 9879, 9880}, span=1, step=2) == 9882
