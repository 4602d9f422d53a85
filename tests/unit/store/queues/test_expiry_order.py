"""An expiry looks at the queues that it concerns, and at no others."""

from zenitmq.store.queues.rows.expiry_order import STEP_BYTES, ExpiryOrder

A, B, C = ("a", 0), ("b", 0), ("c", 3)


def looked_at(order: ExpiryOrder) -> list[tuple[str, int]]:
    found = []
    while (key := order.first) is not None:
        found.append(key)
        order.done()
    return found


def test_queues_are_due_by_where_they_begin_the_lowest_first() -> None:
    order = ExpiryOrder()
    order.note(C, 5 * STEP_BYTES)
    order.note(B, 2 * STEP_BYTES + 7)
    order.note(A, 5)
    order.begin(3 * STEP_BYTES)
    assert looked_at(order) == [A, B]
    order.begin(4 * STEP_BYTES)
    assert looked_at(order) == []
    order.begin(5 * STEP_BYTES)
    assert looked_at(order) == [C]


def test_a_queue_that_was_noted_twice_is_looked_at_once_where_both_are_one_step() -> None:
    order = ExpiryOrder()
    for place in (5, 6, STEP_BYTES):
        order.note(A, place)
    order.begin(STEP_BYTES)
    assert looked_at(order) == [A, A]


def test_a_queue_that_is_noted_again_in_its_step_waits_for_the_next_expiry() -> None:
    order = ExpiryOrder()
    order.note(A, 5)
    order.begin(10)
    assert order.first == A
    order.note(A, 12)
    order.done()
    assert order.first is None
    order.begin(11)
    assert looked_at(order) == [A]


def test_what_one_expiry_leaves_the_next_one_goes_on_with() -> None:
    order = ExpiryOrder()
    order.note(A, 5)
    order.note(B, 6)
    order.note(C, 2 * STEP_BYTES)
    order.begin(STEP_BYTES)
    first = order.first
    order.begin(2 * STEP_BYTES)
    assert order.first == first
    assert sorted(looked_at(order)) == [A, B, C]
