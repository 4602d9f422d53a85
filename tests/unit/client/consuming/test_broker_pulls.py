"""Which pulls go to a broker, and how, if a consumer has more queues than it can keep long polls at."""

from dataclasses import replace
from itertools import count

import pytest

from zenitmq.client.consuming.broker_pulls import (
    AT_ONCE_MAX,
    LONG_POLLS_MAX,
    NOT_WATCHED,
    SUSPEND_MS,
    TOLD_AT_ONCE_MAX,
    BrokerPulls,
)
from zenitmq.client.consuming.prefetch import Pull
from zenitmq.model.get_status import GetStatus
from zenitmq.model.queue import MessageQueue
from zenitmq.remoting.commands import ArrivalsReply, PullReply


def pull(number: int, offset: int = 0, generation: int = 1, *, is_doubted: bool = False) -> Pull:
    queue = MessageQueue(f"t{number % 3}", "broker-a", number)
    return Pull(queue, offset, generation, 65_536, (), is_doubted=is_doubted)


def idle(offset: int) -> PullReply:
    return PullReply(int(GetStatus.OFFSET_OVERFLOW_ONE), offset, 0, offset, 0)


def found(offset: int, messages: int = 5) -> PullReply:
    return PullReply(int(GetStatus.FOUND), offset + messages, 0, offset + messages, messages)


@pytest.fixture
def pulls() -> BrokerPulls:
    """With as many long polls as it may have."""
    names = count(1)
    made = BrokerPulls(lambda: f"watch-{next(names)}")
    for number in range(LONG_POLLS_MAX):
        assert made.begin(pull(number)) == [(pull(number), SUSPEND_MS)]
    assert made.next_request() is None
    return made


def keys(request) -> list[tuple[str, int, int]]:
    return [(request.topics[at], queue_id, offset) for at, queue_id, offset in request.queues]


def ready(request, *numbers: int) -> ArrivalsReply:
    topics = tuple(f"t{number % 3}" for number in numbers)
    return ArrivalsReply(True, topics, tuple(enumerate(numbers)))


def test_a_consumer_of_few_queues_has_a_long_poll_at_each(pulls) -> None:
    assert pulls.on_reply(pull(3), SUSPEND_MS, found(0)) == (True, [])
    assert pulls.begin(pull(3, 5)) == [(pull(3, 5), SUSPEND_MS)]


def test_others_are_watched_together_and_pulled_when_something_came(pulls) -> None:
    assert [pulls.begin(pull(number, 7)) for number in (100, 101)] == [[], []]
    asked = pulls.next_request()
    assert (asked.watch, asked.number, asked.wait_ms) == ("watch-1", 1, SUSPEND_MS)
    assert keys(asked) == [("t1", 100, 7), ("t2", 101, 7)]
    assert not pulls.is_to_ask
    assert pulls.on_arrivals(asked, ready(asked, 101)) == [(pull(101, 7), 0)]
    again = pulls.next_request()
    assert (again.number, again.queues) == (2, ())
    assert pulls.on_reply(pull(101, 7), 0, found(7)) == (True, [])
    assert pulls.begin(pull(101, 12)) == [(pull(101, 12), 0)], "a queue that had messages may have more"
    assert pulls.on_reply(pull(101, 12), 0, idle(12)) == (False, [])
    more = pulls.next_request()
    assert (more.number, keys(more)) == (3, [("t2", 101, 12)])
    assert pulls.on_arrivals(again, ArrivalsReply(True, (), ())) == []
    assert not pulls.is_to_ask, "the newer one waits"


@pytest.mark.parametrize(
    "reply",
    [
        PullReply(int(GetStatus.OFFSET_OVERFLOW_ONE), 7, 0, 9, 0),
        PullReply(int(GetStatus.OFFSET_OVERFLOW_BADLY), 3, 0, 3, 0),
        PullReply(int(GetStatus.NO_MATCHED_MESSAGE), 9, 0, 9, 0),
        PullReply(int(GetStatus.MESSAGES_LOST), 9, 0, 9, 0),
        None,
    ],
    ids=["before damage", "cut", "nothing matched", "lost", "error"],
)
def test_an_answer_that_says_more_than_that_there_is_nothing_is_an_answer(pulls, reply) -> None:
    pulls.begin(pull(100, 7))
    pulls.on_arrivals(pulls.next_request(), ready(None, 100))
    assert pulls.on_reply(pull(100, 7), 0, reply) == (True, [])


def test_a_pull_in_doubt_is_sent_at_once(pulls) -> None:
    doubted = pull(100, 7, is_doubted=True)
    assert pulls.begin(doubted) == [(doubted, SUSPEND_MS)]


def test_a_newer_pull_of_a_watched_queue_takes_its_place(pulls) -> None:
    pulls.begin(pull(100, 7))
    asked = pulls.next_request()
    pulls.begin(pull(100, 7, generation=2))
    assert not pulls.is_to_ask, "the broker knows the place"
    pulls.begin(pull(100, 2, generation=3))
    assert keys(pulls.next_request()) == [("t1", 100, 2)]
    assert pulls.on_arrivals(asked, ready(asked, 100)) == [(pull(100, 2, generation=3), 0)]


def test_so_many_are_told_at_a_time_and_the_last_request_waits(pulls) -> None:
    for number in range(1000, 1000 + TOLD_AT_ONCE_MAX + 1):
        pulls.begin(pull(number))
    first = pulls.next_request()
    assert (len(first.queues), first.wait_ms) == (TOLD_AT_ONCE_MAX, 0)
    second = pulls.next_request()
    assert (len(second.queues), second.wait_ms) == (1, SUSPEND_MS)


def test_so_many_are_pulled_at_a_time(pulls) -> None:
    numbers = range(1000, 1000 + AT_ONCE_MAX + 2)
    for number in numbers:
        pulls.begin(pull(number))
    sends = pulls.on_arrivals(pulls.next_request(), ready(None, *numbers))
    assert len(sends) == AT_ONCE_MAX
    later = [pulls.on_reply(sent, 0, None)[1] for sent, _ in sends[:3]]
    assert later == [[(pull(numbers[-2]), 0)], [(pull(numbers[-1]), 0)], []]


def test_a_broker_that_has_forgotten_is_told_everything(pulls) -> None:
    pulls.begin(pull(100, 7))
    pulls.begin(pull(101, 7))
    pulls.on_arrivals(pulls.next_request(), ready(None, 101))
    asked = pulls.next_request()
    assert pulls.on_arrivals(asked, ArrivalsReply(False, (), ())) == []
    anew = pulls.next_request()
    assert (anew.watch, anew.number, keys(anew)) == ("watch-2", 1, [("t1", 100, 7)])
    assert pulls.on_arrivals(asked, ArrivalsReply(False, (), ())) == [], "of the watch before"
    assert not pulls.is_to_ask


def test_with_a_request_that_fails_all_that_are_watched_fail_once(pulls) -> None:
    pulls.begin(pull(100, 7))
    first = pulls.next_request()
    pulls.begin(pull(101, 7))
    second = pulls.next_request()
    assert pulls.on_watch_error(first, has_watches=True) == ([pull(100, 7), pull(101, 7)], [])
    assert pulls.on_watch_error(second, has_watches=True) == ([], [])
    assert not pulls.is_to_ask


def test_at_a_broker_that_is_too_old_each_waits(pulls) -> None:
    pulls.begin(pull(100, 7))
    failed, sends = pulls.on_watch_error(pulls.next_request(), has_watches=False)
    assert (failed, sends) == ([], [(pull(100, 7), SUSPEND_MS)])
    assert pulls.begin(pull(101, 7)) == [(pull(101, 7), SUSPEND_MS)]


def test_an_answer_of_queues_that_nobody_asked_for_is_left_alone(pulls) -> None:
    pulls.begin(pull(100, 7))
    asked = pulls.next_request()
    assert pulls.on_arrivals(asked, ArrivalsReply(True, ("t1",), ((0, 5), (7, 100)))) == []
    assert pulls.next_request().number == 2


def test_a_closed_consumer_asks_no_more(pulls) -> None:
    pulls.begin(pull(100, 7))
    asked = pulls.next_request()
    assert pulls.on_arrivals(asked, ready(asked, 100)) == [(pull(100, 7), 0)]
    pulls.begin(pull(101, 7))
    asked = pulls.next_request()
    pulls.end()
    assert pulls.on_reply(pull(100, 7), 0, idle(7)) == (True, [])
    assert pulls.on_arrivals(asked, ready(asked, 101)) == []
    assert pulls.on_watch_error(asked, has_watches=True) == ([], [])
    assert not pulls.is_to_ask
    assert pulls.next_request() is None


def test_a_queue_that_is_given_up_is_watched_no_more(pulls) -> None:
    pulls.begin(pull(100, 7))
    pulls.begin(pull(103, 7))
    pulls.drop(pull(103).queue)
    asked = pulls.next_request()
    assert keys(asked) == [("t1", 100, 7)], "what was never told need not be taken back"
    pulls.begin(pull(103, 7))
    pulls.next_request()
    pulls.drop(replace(pull(100).queue, broker_name="broker-b"))
    assert not pulls.is_to_ask, "it is another broker's"
    pulls.drop(pull(103).queue)
    asked = pulls.next_request()
    assert (keys(asked), asked.wait_ms) == ([("t1", 103, NOT_WATCHED)], SUSPEND_MS)
    assert pulls.on_arrivals(asked, ready(asked, 103)) == []
    pulls.drop(pull(100).queue)
    last = pulls.next_request()
    assert (keys(last), last.wait_ms) == ([("t1", 100, NOT_WATCHED)], 0)
    assert pulls.on_arrivals(last, ArrivalsReply(True, (), ())) == []
    assert not pulls.is_to_ask, "nothing is left"
    pulls.begin(pull(100, 7))
    assert keys(pulls.next_request()) == [("t1", 100, 7)]


def test_one_that_is_taken_again_is_watched_again(pulls) -> None:
    pulls.begin(pull(100, 7))
    pulls.next_request()
    pulls.drop(pull(100).queue)
    pulls.begin(pull(100, 7, generation=2))
    assert keys(pulls.next_request()) == [("t1", 100, 7)]
    assert not pulls.is_to_ask


def test_one_that_is_given_up_while_it_is_pulled_is_not_watched_afterwards(pulls) -> None:
    pulls.begin(pull(100, 7))
    asked = pulls.next_request()
    pulls.on_arrivals(asked, ready(asked, 100))
    pulls.drop(pull(100).queue)
    assert pulls.on_reply(pull(100, 7), 0, idle(7)) == (True, [])
    assert not pulls.is_to_ask
