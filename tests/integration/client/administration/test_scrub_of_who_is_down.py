"""A scrub that asks for a broker that is not there says who is, and what to do for one that is down."""

from __future__ import annotations

import re

import pytest

from zenitmq import Admin
from zenitmq.model.errors import InvalidParameter


def test_an_address_where_nobody_is_up(broker, admin: Admin) -> None:
    """A stopped replica's address: it was answered with the names of groups, its own among them."""
    with pytest.raises(
        InvalidParameter, match=rf"one that is up, {re.escape(broker.address)}; .*started first \(zenit up\)"
    ):
        admin.scrub("127.0.0.1:1")


def test_a_name_that_nobody_has(broker, admin: Admin) -> None:
    with pytest.raises(InvalidParameter, match=r"one that is up, broker-a; .*zenit up"):
        admin.scrub("nobody")
