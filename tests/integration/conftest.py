"""Clusters of real processes that the tests of a run share: a start costs seconds. Each test has topics and groups of its own.

They are imported when they are first wanted: this file is read before it is chosen which kernel the tests use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from forks.spawning import use_forks

if TYPE_CHECKING:
    from zenitmq.testing import LocalCluster

use_forks()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that share the group of three come last: idle, it takes a twentieth of a core for as long as it is there."""
    later = {item.path for item in items if "_three_replicas" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: item.path in later)


@pytest.fixture(scope="session")
def one_broker() -> Iterator[LocalCluster]:
    """A name server and a broker, never down when a test begins."""
    from zenitmq.testing import LocalCluster

    with LocalCluster() as running:
        yield running


@pytest.fixture(scope="session")
def _three_replicas() -> Iterator[LocalCluster]:
    from zenitmq.testing import LocalCluster

    with LocalCluster(replicas=3) as running:
        yield running


@pytest.fixture
def three_replicas(_three_replicas: LocalCluster) -> LocalCluster:
    """A group of three, whose replicas may be killed: when a test begins they are there again, and in sync."""
    _three_replicas.restart()
    return _three_replicas
