"""The book of a drill's consumers: early, late, and acknowledged messages that come again."""

from __future__ import annotations

from zenitmq.deploy.drills.deliveries.pop_book import Again, PopBook

PLACE = ("broker-a", 1, 7)


def received(book: PopBook, called_ms: int, now_ms: int) -> None:
    book.on_received(PLACE, called_ms=called_ms, now_ms=now_ms, invisible_ms=3_000)


def test_what_comes_again_after_its_time_breaks_nothing() -> None:
    book = PopBook()
    received(book, 100, 150)
    received(book, 2_900, 3_160)
    assert (book.received, book.returned, book.late_ms_max, book.violations, book.again) == (2, 1, 10, [], [])


def test_what_comes_again_before_its_time_is_told() -> None:
    book = PopBook()
    received(book, 100, 150)
    received(book, 2_900, 3_099)
    assert book.violations == [f"{PLACE} came again 1 ms before its time"]


def test_what_comes_again_late_is_noted() -> None:
    book = PopBook()
    received(book, 100, 150)
    received(book, 3_900, 4_151)
    assert (book.late_ms_max, book.again) == (1_001, [Again(PLACE, 3_150, 4_151)])


def test_an_acknowledged_message_that_comes_again_is_told() -> None:
    book = PopBook()
    received(book, 100, 150)
    book.on_acked(PLACE, 200)
    assert (book.acked, book.open({PLACE, ("broker-a", 1, 8)})) == (1, {("broker-a", 1, 8)})
    received(book, 199, 201)  # it was on its way before that
    assert book.violations == []
    received(book, 5_000, 5_001)
    assert book.violations == [f"{PLACE} came again 4800 ms after it was acknowledged"]


def test_after_an_acknowledgement_without_an_answer_both_are_right() -> None:
    book = PopBook()
    received(book, 100, 150)
    book.on_unsure(PLACE)
    assert book.open({PLACE}) == set()
    received(book, 3_500, 9_000)
    assert book.open({PLACE}) == {PLACE}
    book.on_acked(PLACE, 9_001)
    assert (book.violations, book.again, book.open({PLACE})) == ([], [], set())
