"""Reading topics with Spark: plans, ranges, pulls, Arrow batches."""
