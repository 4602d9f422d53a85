"""Reading an exported table: any message comes back as it was; what is no whole export is refused with a reason."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.model.test_export_line import MESSAGES, PLAIN

from zenitmq.model.errors import StoreFormatError
from zenitmq.model.export_line import ExportedMessage
from zenitmq.pipeline import export_table
from zenitmq.pipeline.export_table import TableWriter, read_table

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
TOPICS = {"orders": {"queues": 4}}


def written(messages: list[ExportedMessage]) -> bytes:
    file = io.BytesIO()
    writer = TableWriter(file, TOPICS)
    for message in messages:
        writer.write(message)
    writer.end({"messages": len(messages)})
    return file.getvalue()


def read(data: bytes) -> list[tuple[int, Any]]:
    return list(read_table("x.parquet", io.BytesIO(data)))


SEVERAL = [
    PLAIN,
    replace(PLAIN, queue_offset=8, body=bytes(range(256)), properties=b""),
    replace(PLAIN, queue_offset=9, body=b"", properties=b"a\x01b\x02a\x01\xff\x02"),
]
WHOLE = written(SEVERAL)


def test_the_head_and_the_messages_come_with_their_numbers() -> None:
    assert read(WHOLE) == [(1, TOPICS), *enumerate(SEVERAL, 2)]
    assert read(written([])) == [(1, TOPICS)]


@given(st.lists(st.builds(replace, MESSAGES, queue_id=INT32, flag=INT32), max_size=3))
def test_any_message_comes_back(messages: list[ExportedMessage]) -> None:
    assert [said for _, said in read(written(messages))][1:] == messages


def test_row_groups_and_batches_of_rows_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_table, "_ROWS", 4)
    monkeypatch.setattr(export_table, "_READ_ROWS", 3)
    many = [replace(PLAIN, queue_offset=n, body=b"%d" % n) for n in range(11)]
    assert read(written(many))[1:] == list(enumerate(many, 2))


def test_cut_at_any_byte_it_is_refused() -> None:
    for size in range(len(WHOLE)):
        with pytest.raises(StoreFormatError, match="line 1: "):
            read(WHOLE[:size])


def test_a_wrong_byte_of_a_body_is_refused() -> None:
    """Whether it lies in a page or in the page's head: never another message, and none is missing."""
    where = pq.ParquetFile(io.BytesIO(WHOLE)).metadata.row_group(0).column(export_table._SCHEMA.names.index("body"))
    begin = where.dictionary_page_offset or where.data_page_offset
    for at in range(begin, begin + where.total_compressed_size):
        data = bytearray(WHOLE)
        data[at] ^= 0x10
        with suppress(StoreFormatError):
            assert [said for _, said in read(bytes(data))][1:] == SEVERAL, at


def changed(change: Callable[[pa.Table], pa.Table]) -> bytes:
    file = io.BytesIO()
    pq.write_table(change(pq.read_table(io.BytesIO(WHOLE))), file)
    return file.getvalue()


def with_facts(**facts: Any) -> Callable[[pa.Table], pa.Table]:
    texts = {name: fact if isinstance(fact, str) else json.dumps(fact) for name, fact in facts.items()}
    return lambda table: table.replace_schema_metadata(texts)


HEAD = {"version": 1, "topics": TOPICS}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_facts(), "line 1: it does not begin an export of version 1"),
        (with_facts(zenit_export={"version": 2, "topics": {}}), "line 1: it does not begin an export of version 1"),
        (with_facts(zenit_export={"version": 1, "topics": {"a": 1}}), "line 1: topics"),
        (with_facts(zenit_export=[]), "line 1: it does not begin"),
        (with_facts(zenit_export="{"), "line 1: "),
        (with_facts(zenit_export=HEAD), "line 1: it holds 3 messages, and says another number"),
        (with_facts(zenit_export=HEAD, zenit_export_end={"messages": 2}), "it holds 3 messages, and says another"),
    ],
)
def test_another_head_or_end_is_refused(change: Callable[[pa.Table], pa.Table], reason: str) -> None:
    with pytest.raises(StoreFormatError, match=reason):
        read(changed(change))


def test_other_columns_are_refused() -> None:
    facts = with_facts(zenit_export=HEAD, zenit_export_end={"messages": 3})
    at = export_table._SCHEMA.names.index("body")
    for change in (
        lambda table: facts(table.drop_columns(["body"])),
        lambda table: facts(table.set_column(at, "body", pa.array(["a", "b", "c"]))),
    ):
        with pytest.raises(StoreFormatError, match="line 1: expected the columns topic, queue_id, "):
            read(changed(change))


def test_a_wrong_host_is_refused_with_its_line() -> None:
    at = export_table._SCHEMA.names.index("born_host")
    facts = with_facts(zenit_export=HEAD, zenit_export_end={"messages": 3})
    hosts = pa.array(["127.0.0.1:1", "nobody", "127.0.0.1:1"], pa.string())
    data = changed(lambda table: facts(table.set_column(at, table.schema.field(at), hosts)))
    with pytest.raises(StoreFormatError, match="line 3: 'nobody' is no address with a port"):
        read(data)


def test_no_parquet_is_refused() -> None:
    for data in (b"", b"PAR1", b"no Parquet", bytes(1000)):
        with pytest.raises(StoreFormatError, match="line 1: "):
            read(data)
