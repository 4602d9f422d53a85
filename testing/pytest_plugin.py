"""Fixtures for pytest: enable them by `pytest_plugins = ["zenitmq.testing.pytest_plugin"]` in conftest.py.

zenit_cluster       a cluster of one broker that lives as long as the test session
zenit_namesrv       its address, as `namesrv=` takes it
zenit_topic         a new topic in it, of four queues, for one test
new_zenit_cluster   new_zenit_cluster(replicas=3): a cluster for one test, to be killed and restarted
zenit_container     a broker in a container that lives as long as the test session; needs `pip install testcontainers`
zenit_memory        the name of an engine in memory, as `namesrv=` takes it, for one test: there in milliseconds
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from ..model.errors import RequirementMissing
from .local_cluster import LocalCluster
from .memory_cluster import MemoryCluster

if TYPE_CHECKING:
    from .containers import ZenitContainer


@pytest.fixture(scope="session")
def zenit_cluster() -> Iterator[LocalCluster]:
    """A cluster of one broker, for all tests of the session: each uses topics and groups of its own."""
    with LocalCluster() as cluster:
        yield cluster


@pytest.fixture
def zenit_namesrv(zenit_cluster: LocalCluster) -> str:
    """The address of the session's cluster."""
    return zenit_cluster.namesrv


@pytest.fixture
def zenit_topic(zenit_cluster: LocalCluster) -> str:
    """The name of a topic that no other test has."""
    return zenit_cluster.create_topic(f"test-{secrets.token_hex(6)}")


@pytest.fixture
def new_zenit_cluster() -> Iterator[Callable[..., LocalCluster]]:
    """Starts clusters for one test, with LocalCluster's arguments; they are ended with it."""
    with ExitStack() as running:

        def start(**options: object) -> LocalCluster:
            return running.enter_context(LocalCluster(**options))  # type: ignore[arg-type]

        yield start


@pytest.fixture(scope="session")
def zenit_container() -> Iterator[ZenitContainer]:
    """A broker in a container, for all tests of the session. Raises RequirementMissing without testcontainers or the image."""
    try:
        from .containers import ZenitContainer
    except ModuleNotFoundError as error:
        raise RequirementMissing("testcontainers", "install it with: pip install testcontainers") from error
    with ZenitContainer() as container:
        yield container


@pytest.fixture
def zenit_memory() -> Iterator[str]:
    """The name of an engine that ends with the test. Close its clients before that."""
    with MemoryCluster() as memory:
        yield memory.namesrv
