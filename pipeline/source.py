"""The format "zenit" of Spark: Spark creates it by name, and gets readers and writers from it.

Imported in every Python process that Spark starts: heavy modules are imported by the methods that need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

    from .options.options import ReadOptions
    from .writing.sink import BatchWriter, StreamWriter

NAME: Final = "zenit"


class ZenitDataSource(DataSource):
    """Topics as data frames: `spark.read.format("zenit")`, `readStream`, `write` and `writeStream`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return NAME

    def schema(self) -> StructType:
        """The columns requested by the options. Raises errors about the options."""
        from .schema import spark_schema
        from .session.forked_worker import keep_imports

        schema = spark_schema(self._read_options().columns)
        keep_imports()
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch."""
        from .reading.batch_reader import BatchReader, FilteringBatchReader

        options = self._columns_of(schema).for_batch()
        return FilteringBatchReader(options) if options.pushdown else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """The reader of a stream."""
        from .reading.stream_reader import StreamReader

        return StreamReader(self._columns_of(schema).for_stream())

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """The writer of a batch."""
        from .writing.sink import batch_writer

        return batch_writer(dict(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802  # Spark's name
        """The writer of a stream."""
        from .writing.sink import stream_writer

        return stream_writer(dict(self.options), schema, overwrite)

    def _read_options(self) -> ReadOptions:
        from .options.options import ReadOptions

        return ReadOptions.parse(dict(self.options))

    def _columns_of(self, schema: StructType) -> ReadOptions:
        """The options with the columns of the schema (the user may have given one), and with the driver's name servers: an
        executor may run elsewhere. Raises KeyFileRefused if the key cannot be used here.
        """
        from dataclasses import replace

        from ..client.connection.cluster import name_servers
        from .schema import columns_of
        from .session.connections import checked_key

        options = self._read_options()
        return replace(
            options,
            columns=columns_of(schema),
            namesrv=",".join(name_servers(options.namesrv)),
            key=checked_key(options.key),
        )
