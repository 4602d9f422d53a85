"""Which log is worth most where an operator has to choose, and what another one loses."""

from __future__ import annotations

import pytest

from zenitmq.model.groups.log_reach import LogReach, best_log, lost_range


def log(name: str, newest_epoch: int, end: int, *, begin: int = 0, confirm: int = 0) -> LogReach:
    return LogReach(name=name, newest_epoch=newest_epoch, newest_begin=begin, end=end, confirm=confirm)


OLD_TAIL = log("a", 5, 9000, begin=4000)
"""An isolated master of epoch 5, with a tail that nobody acknowledged."""
NEWER = log("b", 7, 6500, begin=6000)


@pytest.mark.parametrize(
    ("logs", "best", "lost"),
    [
        ([log("a", 5, 700), log("b", 5, 1000)], "b", {"a": (700, 1000), "b": (1000, 1000)}),
        ([OLD_TAIL, NEWER], "b", {"a": (6000, 6500), "b": (6500, 6500)}),
        ([log("a", 5, 5500, begin=4000), NEWER], "b", {"a": (5500, 6500), "b": (6500, 6500)}),
        ([log("a", 0, 0), log("b", 0, 0)], "a", {"a": (0, 0), "b": (0, 0)}),
        ([log("a", 5, 700), log("b", 5, 700)], "a", {"b": (700, 700)}),
        # c was elected in epoch 6 with an empty log and never followed; b has what a confirmed in epoch 7, and no row of it
        ([log("a", 5, 500, confirm=800), log("b", 5, 800), log("c", 6, 0)], "b", {"a": (500, 800), "c": (0, 800)}),
    ],
)
def test_logs_are_compared_by_their_last_row_then_by_their_end(
    logs: list[LogReach], best: str, lost: dict[str, tuple[int, int]]
) -> None:
    assert best_log(logs).name == best
    by_name = {one.name: one for one in logs}
    assert {name: lost_range(by_name[name], logs) for name in lost} == lost
