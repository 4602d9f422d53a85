"""What a consumer says of messages that nobody has any more."""

from zenitmq.client.consuming.losses import LossNotices
from zenitmq.client.consuming.prefetch import MessagesLost
from zenitmq.model.queue import MessageQueue

LOST = MessagesLost(MessageQueue("t", "a", 0), 5, 8, (4096, 5000))


def test_a_loss_is_counted_logged_and_told(caplog) -> None:
    told: list[MessagesLost] = []
    losses = LossNotices("g", told.append)
    losses.tell(LOST)
    assert (losses.count, told) == (3, [LOST])
    assert "begin=5 end=8 physical=(4096, 5000)" in caplog.text


def test_a_function_that_fails_changes_nothing(caplog) -> None:
    def fails(_lost: MessagesLost) -> None:
        raise ValueError("of the user's own")

    losses = LossNotices("g", fails)
    losses.tell(LOST)
    losses.tell(LOST)
    assert losses.count == 6
    assert caplog.text.count("on_lost failed") == 2
    LossNotices("g", None).tell(LOST)
