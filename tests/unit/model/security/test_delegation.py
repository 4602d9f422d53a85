"""A delegation counts for one gateway, one user and an hour, and nobody without the servers' key makes one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenitmq.model.security.delegation import LENGTH_MAX, delegated_user, new_delegation

OLD, KEY = b"o" * 32, b"k" * 32
TEXT = new_delegation(KEY, "shop", "gate", 5000)
NOBODY = ("", 0)


def test_it_names_its_user_to_each_server_until_its_time_is_over() -> None:
    assert delegated_user((KEY,), "gate", TEXT, 4999) == ("shop", 5000)
    assert delegated_user((KEY,), "gate", TEXT, 5000) == NOBODY


def test_while_the_key_is_changed_the_old_one_counts() -> None:
    assert delegated_user((KEY, OLD), "gate", new_delegation(OLD, "shop", "gate", 9), 1) == ("shop", 9)
    assert delegated_user((OLD,), "gate", TEXT, 1) == NOBODY
    assert delegated_user((), "gate", TEXT, 1) == NOBODY


def test_another_gateway_has_nothing_of_it() -> None:
    assert delegated_user((KEY,), "gate2", TEXT, 1) == NOBODY
    moved = new_delegation(KEY, "shop", "gate2", 5000)
    assert moved.rpartition(":")[2] != TEXT.rpartition(":")[2]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            ":",
            "::",
            "shop",
            "shop:5000",
            "shop:5000:",
            "shop:-1:" + "0" * 32,
            "shop:\u0665000:x",
            "shop:5000:\xe9",
        ),
        TEXT.replace("shop", "shoq"),
        TEXT.replace("5000", "5001"),
        TEXT.upper(),
        TEXT + " ",
        TEXT + "0" * LENGTH_MAX,
        "a" * 1000 + ":5000:" + "0" * 32,
        "shop:" + "9" * 5000 + ":x",
    ],
)
def test_what_was_changed_is_nobodys(text: str) -> None:
    assert delegated_user((KEY,), "gate", text, 1) == NOBODY


@given(st.text(max_size=200))
def test_any_text_is_nobodys(text: str) -> None:
    assert delegated_user((KEY,), "gate", text, 1) == NOBODY
