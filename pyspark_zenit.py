"""Spark imports every module whose name begins with `pyspark_` and takes its DefaultSource: this is how the format "zenit"
is found without being registered. Where what it needs is missing, there is no such format, and nothing else breaks.
"""

try:
    from zenitmq.pipeline.source import ZenitDataSource as DefaultSource
except ImportError:  # no pyspark with data sources, or the package is gone
    __all__: list[str] = []
else:
    __all__ = ["DefaultSource"]
