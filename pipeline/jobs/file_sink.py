"""Rows to staged files through Spark: a sink of the archive's own, since it has to know which files of which tasks counted.

Each task writes its rows (parquet_files) and tells what it wrote; when all of them are done, Spark asks for the commit once,
on the driver, with what the tasks told that counted: it goes into a file beside theirs. Attempts that failed, or that
were done twice, leave files that nobody lists.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from .archive_tree import StagedFile
from .durable_files import read_bounded, write_synced
from .manifest import DOCUMENT_BYTES_MAX
from .parquet_files import staged_of, staged_text, write_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

NAME: Final = "zenit-archive-files"
LIST_NAME: Final = "files.json"


def write_files(rows: DataFrame, directory: str, target_bytes: int) -> list[StagedFile]:
    """Writes the rows of all columns into files in `directory`, which the driver and all executors have."""
    rows.sparkSession.dataSource.register(StagedRows)
    settings = {"directory": directory, "targetBytes": str(target_bytes)}
    rows.write.format(NAME).options(**settings).mode("append").save()
    texts = json.loads(read_bounded(os.path.join(directory, LIST_NAME), DOCUMENT_BYTES_MAX))
    return [staged_of(text) for text in texts]


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What one task wrote: its staged files as texts."""

    texts: tuple[str, ...]


class StagedRowsWriter(DataSourceArrowWriter):
    """Pickled to executors: a directory's name and a size."""

    def __init__(self, directory: str, target_bytes: int) -> None:
        self._directory = directory
        self._target_bytes = target_bytes

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """One task's rows."""
        return Written(tuple(staged_text(each) for each in write_rows(iterator, self._directory, self._target_bytes)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Lists the files of the tasks that counted."""
        texts = [text for message in messages if isinstance(message, Written) for text in message.texts]
        write_synced(os.path.join(self._directory, LIST_NAME), json.dumps(texts).encode())


class StagedRows(DataSource):
    """The sink as Spark finds it."""

    @classmethod
    def name(cls) -> str:
        """What comes after `format`."""
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> StagedRowsWriter:
        """Of a batch."""
        del schema, overwrite
        return StagedRowsWriter(self.options["directory"], int(self.options["targetBytes"]))
