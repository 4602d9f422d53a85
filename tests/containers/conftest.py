"""Images built from the Dockerfiles, and one secured cluster of separate containers that all tests here share.

They are skipped, in one line, where no Docker engine answers; with ZENIT_REQUIRE_CONTAINERS=1 they fail instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from containers.container_cluster import ContainerCluster

# Its reaper is an image of a registry; what a test makes here is removed by the test.
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    if not here:
        return
    from containers.engine import BUILD_S, REQUIRED, engine_answers

    missing = not engine_answers() and not os.environ.get(REQUIRED)
    for item in here:
        item.add_marker(pytest.mark.timeout(BUILD_S))
        if missing:
            item.add_marker(pytest.mark.skip(reason="no Docker engine answers"))


@pytest.fixture(scope="session")
def image() -> str:
    """The image, of this tree; its bases are kept for the next run. $ZENIT_IMAGE names one that is built already."""
    from containers.engine import build

    if named := os.environ.get("ZENIT_IMAGE"):
        return named
    name = "zenitmq:tested"
    build("deploy/image/build.sh", "--tag", name)
    return name


@pytest.fixture(scope="session")
def zookeeper_image(image: str) -> str:
    from containers.engine import build

    if named := os.environ.get("ZENIT_ZOOKEEPER_IMAGE"):
        return named
    build("deploy/image/zookeeper/build.sh")
    return "zenit-zookeeper"


@pytest.fixture(scope="session")
def cluster(image: str, zookeeper_image: str) -> Iterator[ContainerCluster]:
    """A group of three with two controllers and two name servers, secured; each a container of its own."""
    from containers.container_cluster import ContainerCluster

    with ContainerCluster(image, zookeeper_image) as running:
        yield running
