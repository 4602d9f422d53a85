"""A Spark session that is fit for the format "zenit"."""

from .session import spark_session as spark_session
