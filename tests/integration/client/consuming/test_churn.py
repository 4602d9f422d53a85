"""A group whose members come and go all the time: nothing is lost, and only what was in flight at a move comes twice."""

from __future__ import annotations

from integration.client.consuming.churn import COMMIT_MS, churn

from zenitmq.testing import LocalCluster

LATE_MS = 5_000  # how late a thread may run on a machine that does other things too


def test_members_that_join_and_leave_at_random_lose_nothing(one_broker: LocalCluster) -> None:
    """For ten seconds; churn.py does it for as long as one likes."""
    topic = one_broker.create_topic("churn", queues=16)
    report = churn(one_broker.namesrv, topic, seconds=10, members=20, rate=500, seed=1, fails=0.5, pushing=0.5)
    assert report.lost == 0, report
    assert report.unexplained == 0, report
    assert report.age_ms_max <= COMMIT_MS + LATE_MS, report
    assert report.joins > 20, report
    assert report.moves > 16, report
    assert report.duplicates < report.sent, report
