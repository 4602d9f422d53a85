"""Producer ids, sequences, and the room that a record leaves for them."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import InvalidParameter
from zenitmq.model.properties import decode_properties
from zenitmq.model.sequence import (
    PRODUCER_ID_LENGTH_MAX,
    SEQUENCE_MAX,
    check_producer_id,
    check_sequences,
    sequence_room,
)


@pytest.mark.parametrize("producer_id", ["a", "0f-9_Z./x", "x" * PRODUCER_ID_LENGTH_MAX])
def test_an_id_is_plain_text(producer_id: str) -> None:
    assert check_producer_id(producer_id) == producer_id


@pytest.mark.parametrize(
    "producer_id", ["", "a b", "a:b", "ä", "\u0661", "a\n", "a\x02", "x" * (PRODUCER_ID_LENGTH_MAX + 1)]
)
def test_other_ids_are_refused(producer_id: str) -> None:
    with pytest.raises(InvalidParameter):
        check_producer_id(producer_id)


def test_sequences_fit_into_63_bits() -> None:
    check_sequences(0, 1)
    check_sequences(SEQUENCE_MAX - 2, 2)
    for first, count in ((-1, 1), (0, 0), (0, -1), (SEQUENCE_MAX - 1, 2)):
        with pytest.raises(InvalidParameter):
            check_sequences(first, count)


def test_room_is_a_property_as_long_as_what_will_be_in_it() -> None:
    assert decode_properties(sequence_room(3)) == {"PSEQ": "000:0000000000000000"}
