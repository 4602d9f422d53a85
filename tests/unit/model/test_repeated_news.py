"""News that repeat: told at once, each minute, and at once again where they are others or were over."""

from __future__ import annotations

from zenitmq.model.repeated_news import SUBJECTS_MAX, TELL_MS, RepeatedNews


def test_the_same_is_told_once_a_minute_with_its_count() -> None:
    news = RepeatedNews()
    told = [(now_ms, news.count_to_tell("t", "down", now_ms)) for now_ms in range(0, 2 * TELL_MS + 1, 1000)]
    assert [found for found in told if found[1]] == [(0, 1), (TELL_MS, 60), (2 * TELL_MS, 60)]


def test_another_kind_and_another_subject_are_told_at_once() -> None:
    news = RepeatedNews()
    asked = [("t", "down"), ("t", "down"), ("u", "down"), ("t", "busy"), ("t", "down")]
    assert [news.count_to_tell(subject, kind, 5) for subject, kind in asked] == [1, 0, 1, 1, 1]


def test_what_was_over_is_news_again() -> None:
    news = RepeatedNews()
    assert not news.is_over("t")
    assert news.count_to_tell("t", "down", 0) == 1
    assert news.is_over("t")
    assert not news.is_over("t")
    assert news.count_to_tell("t", "down", 1) == 1


def test_no_more_subjects_are_remembered_than_that() -> None:
    news = RepeatedNews()
    for number in range(SUBJECTS_MAX + 1):
        assert news.count_to_tell(str(number), "down", 0) == 1
    assert not news.is_over("0")
    assert news.is_over("1")
