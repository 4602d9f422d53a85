"""What the session helper sets."""

from __future__ import annotations

import os
import sys

import pytest

from zenitmq.model.errors import RequirementMissing
from zenitmq.pipeline.session import session
from zenitmq.pipeline.session.session import ARROW_UNCHECKED, CHECKPOINT_FILES, settings


def test_a_session_of_this_machine_stays_on_it() -> None:
    chosen = settings("local[2]", shuffle_partitions=2, ui=False)
    assert chosen == {
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": ARROW_UNCHECKED,
        "spark.executor.extraJavaOptions": ARROW_UNCHECKED,
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
    }


def test_a_session_of_a_cluster_is_reached_by_it() -> None:
    chosen = settings("spark://somewhere:7077", shuffle_partitions=None, ui=True)
    assert (
        not {
            "spark.driver.host",
            "spark.driver.bindAddress",
            "spark.sql.streaming.checkpointFileManagerClass",
        }
        & chosen.keys()
    )
    assert chosen["spark.ui.enabled"] == "true"
    assert chosen["spark.sql.shuffle.partitions"] == str(os.cpu_count())


@pytest.mark.parametrize("chosen", [None, "/usr/bin/another-python"])
def test_workers_run_this_python_unless_told(monkeypatch: pytest.MonkeyPatch, chosen: str | None) -> None:
    def no_java() -> str:
        raise RequirementMissing("java", "install it")

    monkeypatch.setattr(session, "bring_java", no_java)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, chosen or "")
        if chosen is None:
            monkeypatch.delenv(name)
    with pytest.raises(RequirementMissing):
        session.spark_session("none")
    assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == (chosen or sys.executable)
