"""One Spark session for the whole run, a cluster a module, a topic a test.

Spark costs seconds of CPU to start: what needs another session (multi-process, another Java) starts its own process.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from forks.spawning import use_forks
from spark.runner_forks import RunnerForks

from zenitmq.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamReader

use_forks()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """py4j leaves its sockets to the collector."""
    for item in items:
        if "tests/spark/" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def forks() -> Iterator[RunnerForks]:
    with RunnerForks() as running:
        yield running


@pytest.fixture(scope="session")
def spark(forks: RunnerForks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """local[2], 2 shuffle partitions, no UI, UTC; whatever Spark writes beside it is in a temporary directory."""
    from zenitmq.pipeline.session.session import spark_session

    work = tmp_path_factory.mktemp("spark")
    config = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(work / "warehouse"),
        "spark.local.dir": str(work / "local"),
        "spark.task.maxFailures": "1",
        "spark.driver.memory": "2g",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in forks.environment.items():  # of this Java, not of those that tests start
            patch.setenv(name, value)
        session = spark_session("zenit-tests", "local[2]", shuffle_partitions=2, config=config)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A name server and a broker, as processes."""
    with LocalCluster() as running:
        yield running


@pytest.fixture
def topic(cluster: LocalCluster) -> str:
    """A topic of four queues that no other test has."""
    return cluster.create_topic(f"t-{secrets.token_hex(5)}")


@pytest.fixture
def read(spark: SparkSession, cluster: LocalCluster, topic: str) -> Callable[..., DataFrame]:
    """read(**options): the topic as a batch, unless told otherwise."""

    def load(**options: Any) -> DataFrame:
        return spark.read.format("zenit").options(**source_options(cluster, topic, options)).load()

    return load


@pytest.fixture
def read_stream(spark: SparkSession, cluster: LocalCluster, topic: str) -> Callable[..., DataStreamReader]:
    """read_stream(**options): the topic as a stream, from its beginning, unless told otherwise."""

    def load(**options: Any) -> Any:
        chosen = source_options(cluster, topic, {"startingOffsets": "earliest", **options})
        return spark.readStream.format("zenit").options(**chosen).load()

    return load


def source_options(cluster: LocalCluster, topic: str, options: dict[str, Any]) -> dict[str, Any]:
    """Those of a test, and where to read unless they say."""
    chosen: dict[str, Any] = {"namesrv": cluster.namesrv}
    if not options.keys() & {"subscribe", "subscribePattern", "assign", "messageTypes"}:
        chosen["subscribe"] = topic
    return chosen | options
