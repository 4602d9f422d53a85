"""Ranges of damage: joined, lifted in part, awaited, and kept through a restart."""

from store_kit import make_store, message, put

from zenitmq.store.integrity.quarantine import Quarantine, joined, note_quarantine, without
from zenitmq.store.opening.snapshot import read_snapshot


def test_ranges_that_share_a_byte_become_one_and_those_that_touch_stay_two() -> None:
    assert joined([(5, 9), (0, 3), (2, 4), (9, 12), (7, 7)]) == ((0, 4), (5, 9), (9, 12))
    assert without(((0, 10), (20, 30)), 5, 25) == ((0, 5), (25, 30))


def test_what_rotted_is_taken_in_once_and_lifted_in_part() -> None:
    quarantine = Quarantine([(0, 10)])
    assert quarantine.add([(20, 40)])
    assert not quarantine.add([(25, 30), (21, 22)])
    quarantine.awaited = quarantine.rotten
    assert (quarantine.ranges, quarantine.rotten) == (((0, 10), (20, 40)), ((20, 40),))
    assert (quarantine.first_hole, Quarantine([(5, 9)], [(5, 9)]).first_hole) == (0, None)
    assert (quarantine.is_awaited(39, 50), quarantine.is_awaited(5, 15)) == (True, False)
    quarantine.lift(20, 30)
    assert (quarantine.ranges, quarantine.rotten, quarantine.awaited) == (
        ((0, 10), (30, 40)),
        ((30, 40),),
        ((30, 40),),
    )
    assert quarantine.ranges_in(9, 31) == ((0, 10), (30, 40))


def test_what_is_written_down_is_there_after_a_restart_beside_what_else_is_known(tmp_path) -> None:
    with make_store(tmp_path / "s") as store:
        places = [put(store, "t", 0, message("t", b"%d" % n)) for n in range(4)]
        store.damage.add(places[1].physical_offset, places[1].end, "in a test")
    facts = tmp_path / "s" / "config" / "zenitStore.json"
    before = read_snapshot(str(facts))
    assert before is not None
    found = [[places[1].physical_offset, places[1].end]]
    assert (before.document["quarantined"], before.document["rotten"]) == (found, found)
    with make_store(tmp_path / "s") as store:
        assert store.damage.quarantine.rotten == ((places[1].physical_offset, places[1].end),)
    note_quarantine(str(tmp_path / "s"), (), (), store.written)
    after = read_snapshot(str(facts))
    assert after is not None
    assert after.document == {**before.document, "quarantined": [], "rotten": []}
