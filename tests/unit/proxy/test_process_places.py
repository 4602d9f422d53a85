"""When a process of a proxy is replaced."""

from __future__ import annotations

from zenitmq.proxy.process_places import PAUSE_MS, PAUSE_MS_MAX, SOUND_MS, ProcessPlaces


def begun(count: int) -> ProcessPlaces:
    places = ProcessPlaces(count)
    for number in places.due(0):
        places.on_begun(number, 100 + number, 0)
    return places


def test_all_are_started_at_once() -> None:
    places = begun(3)
    assert (places.due(0), list(places.running())) == ([], [100, 101, 102])
    assert places.wait_ms(0, 700) == 700


def test_one_that_served_well_is_replaced_after_a_short_pause() -> None:
    places = begun(2)
    assert places.on_ended(101, SOUND_MS)
    assert (places.due(SOUND_MS), places.wait_ms(SOUND_MS, 10_000)) == ([], PAUSE_MS)
    assert places.due(SOUND_MS + PAUSE_MS) == [1]


def test_one_that_ends_at_its_first_start_is_not_replaced() -> None:
    assert not begun(1).on_ended(100, SOUND_MS - 1)


def test_one_that_is_killed_at_its_first_start_is_replaced() -> None:
    """Its settings are not why."""
    places = begun(2)
    assert places.on_ended(100, 10, is_killed=True)
    assert places.due(10 + PAUSE_MS) == [0]


def test_the_pause_grows_while_it_keeps_ending() -> None:
    places, now_ms, pauses = begun(1), SOUND_MS, []
    places.on_ended(100, now_ms)
    for pid in range(200, 210):
        pauses.append(places.wait_ms(now_ms, 10**6))
        now_ms += pauses[-1]
        places.on_begun(0, pid, now_ms)
        assert places.on_ended(pid, now_ms)
    assert pauses[:4] == [PAUSE_MS, 2 * PAUSE_MS, 4 * PAUSE_MS, 8 * PAUSE_MS]
    assert pauses[-1] == PAUSE_MS_MAX


def test_a_strangers_end_changes_nothing() -> None:
    places = begun(1)
    assert places.on_ended(7, 0)
    assert list(places.running()) == [100]
