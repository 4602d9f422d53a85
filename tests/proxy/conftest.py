"""One cluster for all tests of the proxy: topics and groups are each test's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from forks.spawning import use_forks

if TYPE_CHECKING:
    from zenitmq.testing import LocalCluster

use_forks()


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """A name server and a broker."""
    from zenitmq.testing import LocalCluster

    with LocalCluster() as running:
        yield running
