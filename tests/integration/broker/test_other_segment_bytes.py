"""`store.segment_bytes` is changed under a group, or differs between its replicas: it copies on, or says what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from .static_group_kit import Serve, StaticGroup, answers, await_that, in_sync, replication

STORE = {"segment_bytes": 1 << 18, "frame_bytes_max": 1 << 18, "record_bytes_max": 65_536, "body_bytes_max": 50_000}
BODY = bytes(40_000)


@pytest.fixture
def group(serve: Serve, record: Callable[..., bytes]) -> StaticGroup:
    return StaticGroup(serve, record)


@pytest.mark.parametrize("segment_bytes", [1 << 17, 1 << 19])
def test_a_store_keeps_the_size_of_its_files_and_so_does_what_it_sends(group: StaticGroup, segment_bytes: int) -> None:
    master, a = group.serve("m", store=STORE), group.serve("a", store=STORE)
    master.create("t")
    group.send(master, b"first")
    for broker in (master, a):
        broker.stop()
        broker.config = replace(broker.config, store=replace(broker.config.store, segment_bytes=segment_bytes))
    master.start()
    a.start()
    await_that(lambda: answers(master))
    group.send(master, *[BODY] * 15)
    await_that(lambda: replication(a)["written"] == replication(master)["written"])
    assert replication(master)["written"] > 2 * STORE["segment_bytes"]
    assert [len(one.body) for one in a.pull("t")[1]][:2] == [5, len(BODY)]


@pytest.mark.parametrize("segment_bytes", [1 << 17, 1 << 19])
def test_a_slave_whose_files_are_of_another_size_says_so_and_goes_on_serving(
    group: StaticGroup, segment_bytes: int
) -> None:
    master = group.serve("m", store=STORE, static_min_in_sync=1)
    master.create("t")
    group.send(master, *[BODY] * 10)
    a = group.serve("a", store={**STORE, "segment_bytes": segment_bytes})
    await_that(lambda: replication(a)["halted"] is not None)
    assert "store.segment_bytes" in replication(a)["halted"]
    assert in_sync(group) == ("m",)
