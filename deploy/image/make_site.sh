#!/usr/bin/env bash
# Installs the project and what it needs into a folder, without what no server or command uses: what the image is made of.
# Usage: deploy/image/make_site.sh FOLDER
# The versions and digests are those of deploy/supply/locks.
set -euo pipefail
folder=$(realpath -m "${1:?usage: deploy/image/make_site.sh FOLDER}")
cd "$(dirname "$0")/../.."
. deploy/set_up.sh
umask 022 # the image's user has to read it
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
rm -rf "$folder"
install=("$python" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --target "$folder")
"${install[@]}" --only-binary :all: --require-hashes -r deploy/supply/locks/run.txt -r deploy/supply/locks/proxy.txt || fail "pip could not bring the packages; its messages are above"
rm -rf "$folder/bin"
# A module that is gone would still be in there. The compiled kernel stays: it is made again if a source of it is newer.
for old in build/lib* build/bdist*; do [ ! -e "$old" ] || find "$old" -type f ! -name 'kernel.*.so' -delete; done
"${install[@]}" --no-build-isolation . || fail "pip could not install the project; its messages are above"
compgen -G "$folder/zenitmq/record/kernel.*.so" >/dev/null || fail "the record kernel did not compile; python3 setup.py build_ext says why"
sh deploy/image/prune.sh "$folder"
