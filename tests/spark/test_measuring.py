"""`zenit bench spark` measures what it says, and leaves no topic behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zenitmq import Admin
from zenitmq.model.errors import SystemFault
from zenitmq.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_every_figure_is_of_all_rows(spark: SparkSession, cluster: LocalCluster, topic: str, tmp_path: Path) -> None:
    from zenitmq.pipeline.reports.measure import SparkLoad, measure

    with Admin(cluster.namesrv) as admin:
        before = admin.topics()
        load = SparkLoad(
            namesrv=cluster.namesrv,
            topic=topic,
            queues=4,
            messages=6_200,  # no whole number of batches
            size=100,
            directory=str(tmp_path),
            floor_batches=3,
        )
        told: list[str] = []
        found = measure(spark, load, told.append)
        assert admin.topics() == before
    assert list(found) == told
    assert found.pop("job_ms") > 0
    assert found.pop("micro_batch_ms") > 0
    growth = found.pop("growth")
    assert (growth["tenth"]["rows"], growth["whole"]["rows"], growth["times_rows"]) == (620, 6_200, 10)
    assert growth["times_seconds"] > 0
    assert (
        min(growth[part][name] for part in ("tenth", "whole") for name in ("java_heap_bytes", "python_bytes_max")) > 0
    )
    assert found["stream"]["batch_rows_per_second"] > 0
    assert all(figure["rows"] == 6_200 for figure in found.values())
    assert all(figure["rows_per_second"] > 0 for figure in found.values())


def test_rows_that_are_missing_fail_the_run() -> None:
    from zenitmq.pipeline.reports.measure import checked_rate

    with pytest.raises(SystemFault, match="sink: 9 rows instead of 10"):
        checked_rate("sink", 10, lambda: 9)
