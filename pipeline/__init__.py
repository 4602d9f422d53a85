"""The data pipeline on Spark: the format "zenit" to read and write topics, and the jobs built on it."""
