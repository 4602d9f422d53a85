"""A replica whose log has a hole is stopped cleanly before the hole is cut away: it has forgotten nothing by that."""

from __future__ import annotations

from sim.story import Stage


def test_a_clean_stop_vouches_for_no_more_than_the_log_counts_to() -> None:
    """Under sync nothing behind the hole was acknowledged. The marker named the end of the file, so the log seemed to end below
    its clean end: the replica left both sets, and a group of which it was the last one waited for an operator's force."""
    stage = Stage("ab", in_sync="ab", sync=True)
    stage.append("a")
    stage.append("a")
    stage.carry_all()
    stage.lose_power("b")
    stage.lose_power("a", keep=2, hole=0)
    stage.start("a")
    stage.register("a")
    assert stage.node.in_sync == ("a", "b"), "what the hole took was flushed by nobody"
    stage.stop("a")
    stage.start("a")
    stage.register("a")
    assert stage.node.in_sync == ("a", "b")
    stage.start("b")
    stage.register("b")
    stage.elect("a")
    stage.hear("a")
    stage.whole()
