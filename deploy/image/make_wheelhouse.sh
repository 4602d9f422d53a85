#!/usr/bin/env bash
# Puts the wheel of the project and those of what it needs into a folder: what the image is made of.
# Usage: deploy/image/make_wheelhouse.sh FOLDER
# The versions and digests are those of deploy/supply/locks.
set -euo pipefail
folder=$(realpath -m "${1:?usage: deploy/image/make_wheelhouse.sh FOLDER}")
cd "$(dirname "$0")/../.."
. deploy/set_up.sh
base=$(find_python) || fail "Python 3.11 or newer is needed"
can_compile "$base" || fail "the record kernel needs a C compiler and Python's headers; on Debian: sudo apt-get install -y gcc libc6-dev python3-dev"

python=$PWD/.venv/bin/python
if ! { [ -z "${PYTHON:-}" ] && "$python" -c 'import setuptools, Cython, pip'; } 2>/dev/null; then
  python=build/image/venv/bin/python
  if ! "$python" -c "import sys; sys.exit(sys.base_prefix != '$("$base" -c 'import sys; print(sys.base_prefix)')')" 2>/dev/null; then
    rm -rf build/image/venv
    "$base" -m venv build/image/venv || fail "cannot make a virtual environment; on Debian: sudo apt-get install -y python3-venv"
  fi
  "$python" -m pip install --quiet --disable-pip-version-check --require-hashes -r deploy/supply/locks/build.txt
fi
mkdir -p "$folder"
find "$folder" -name '*.whl' -delete
wheel=("$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$folder")
"${wheel[@]}" --require-hashes -r deploy/supply/locks/run.txt || fail "pip could not bring the packages; its messages are above"
# A module that is gone would still be in there. The compiled kernel stays: it is made again if a source of it is newer.
for old in build/lib* build/bdist*; do [ ! -e "$old" ] || find "$old" -type f ! -name 'kernel.*.so' -delete; done
"${wheel[@]}" --no-build-isolation . || fail "pip could not build the project's wheel; its messages are above"
compgen -G "$folder/zenitmq-*-cp*.whl" >/dev/null || fail "the record kernel did not compile; python3 setup.py build_ext says why"
