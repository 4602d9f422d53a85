"""Logs that are compared while their master may append."""

from __future__ import annotations

import pytest

from zenitmq.deploy.drills import process_servers
from zenitmq.deploy.drills.process_servers import ProcessServers


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ([[]], []),
        ([["a and b differ from 7 on"], []], []),
        ([["a and b differ from 7 on"], ["a and b differ from 9 on"]], []),
        ([["a and b differ from 7 on"], ["a and b differ from 7 on"]], ["a and b differ from 7 on"]),
    ],
    ids=["level", "read one after the other", "appended again", "a difference"],
)
def test_a_difference_is_one_that_stays(
    monkeypatch: pytest.MonkeyPatch, looks: list[list[str]], told: list[str]
) -> None:
    monkeypatch.setattr(process_servers, "LOOK_AGAIN_MS", 1)
    servers = ProcessServers.__new__(ProcessServers)
    left = iter(looks)
    monkeypatch.setattr(servers, "_differences", lambda _groups: next(left), raising=True)
    assert servers.differing_logs([]) == told
    assert list(left) == []
