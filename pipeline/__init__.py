"""The data pipeline on Spark: the format "zenit" to read and write topics, and the jobs that are made of it."""
