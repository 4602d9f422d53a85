"""The numbers that the kernel reads and writes by are those of the layouts, which the pages of formats show."""

from __future__ import annotations

import pytest

from zenitmq.record import codes
from zenitmq.record.layout import INDEX_ENTRY_LAYOUT, RECORD, UNIT_LAYOUT, Layout

PLACES = {
    "MAGIC_AT": (RECORD, "magic"),
    "BODY_CRC_AT": (RECORD, "bodyCrc"),
    "QUEUE_ID_AT": (RECORD, "queueId"),
    "FLAG_AT": (RECORD, "flag"),
    "QUEUE_OFFSET_AT": (RECORD, "queueOffset"),
    "PHYSICAL_OFFSET_AT": (RECORD, "physicalOffset"),
    "SYS_FLAG_AT": (RECORD, "sysFlag"),
    "BORN_TIMESTAMP_AT": (RECORD, "bornTimestamp"),
    "BORN_HOST_AT": (RECORD, "bornHost"),
    "UNIT_SIZE_AT": (UNIT_LAYOUT, "size"),
    "UNIT_TAGS_AT": (UNIT_LAYOUT, "tagsCode"),
    "ENTRY_OFFSET_AT": (INDEX_ENTRY_LAYOUT, "physicalOffset"),
    "ENTRY_TIME_AT": (INDEX_ENTRY_LAYOUT, "timeDifference"),
    "ENTRY_PREVIOUS_AT": (INDEX_ENTRY_LAYOUT, "previous"),
}


def place_of(layout: Layout, name: str) -> int:
    at = 0
    for field in layout.fields:
        if field.name == name:
            return at
        at += int(field.size)
    raise AssertionError(f"{layout.name} has no field {name}: {[field.name for field in layout.fields]}")


@pytest.mark.parametrize("name", PLACES)
def test_a_number_is_the_place_that_the_layout_says(name: str) -> None:
    assert getattr(codes, name) == place_of(*PLACES[name])
