"""A slave whose settings name another cluster than its master's: nobody answers it, and both sides say why."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from zenitmq.broker.replication import replica

from .static_group_kit import Serve, StaticGroup, await_that, in_sync, replication


def test_a_slave_of_another_cluster_s_name_is_told_of(
    serve: Serve, record: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It followed for ever, and no line of any log said that it was never answered."""
    monkeypatch.setattr(replica, "UNHEARD_MS", 100)
    group = StaticGroup(serve, record)
    master = group.serve("m", static_min_in_sync=1)
    master.create("t")
    group.send(master, b"1")
    a = group.serve("a", cluster="another")
    await_that(lambda: "a replica asks to follow a master of another group" in caplog.text)
    await_that(lambda: "nothing is heard of the master" in caplog.text)
    assert replication(a)["written"] == 0
    assert in_sync(group) == ("m",)
