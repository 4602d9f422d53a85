"""One table, and from it both schemas, exactly as Spark would make the one of the other."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from zenitmq.model.errors import InvalidParameter
from zenitmq.pipeline.column_names import COLUMN_NAMES
from zenitmq.pipeline.schema import COLUMNS, arrow_schema, columns_of, spark_schema


@pytest.mark.parametrize(
    "names", [COLUMN_NAMES, ("body",), ("queueOffset", "topic"), ("properties", "deliverTimestamp")]
)
def test_batches_have_the_very_schema_that_spark_expects(names: tuple[str, ...]) -> None:
    """Trap: Spark compares with `equals`, nullability included, and the first batch only."""
    assert to_arrow_schema(spark_schema(names), timezone="UTC").equals(arrow_schema(names))
    assert arrow_schema(names) is arrow_schema(names)


def test_the_table_has_the_columns_in_their_order() -> None:
    assert tuple(column.name for column in COLUMNS) == COLUMN_NAMES
    assert arrow_schema().names == list(COLUMN_NAMES)
    assert arrow_schema().field("properties").type == pa.map_(pa.string(), pa.string())


def test_a_schema_of_the_user_s_own_may_have_fewer_columns_in_any_order() -> None:
    assert columns_of(StructType().add("flag", "integer").add("body", "binary")) == ("flag", "body")


@pytest.mark.parametrize(("name", "kind"), [("flag", "string"), ("bodies", "binary"), ("Topic", "string")])
def test_columns_that_a_topic_has_not_are_refused(name: str, kind: str) -> None:
    with pytest.raises(InvalidParameter, match="schema"):
        columns_of(StructType().add(name, kind))


def test_no_column_at_all_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="schema"):
        columns_of(StructType())
