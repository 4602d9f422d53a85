#!/usr/bin/env bash
# Writes the lock files and the bill of materials anew, from the newest versions that pyproject.toml allows.
# Usage: deploy/supply/renew.sh    from anywhere in a clone; needs Python >= 3.11 and a package index; takes some minutes.
# locks/run.txt has what every installation needs, spark.txt, prometheus.txt, otel.txt, backup.txt, proxy.txt and dev.txt what it needs with that
# extra, build.txt what builds the wheel. All of them are parts of one choice of versions, so that they can be combined.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/set_up.sh
base=$(find_python) || fail "Python 3.11 or newer is needed"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
locks=deploy/supply/locks
mkdir -p "$locks"

say "choosing versions"
"$base" -m venv "$work/tool"
"$work/tool/bin/python" -m pip install --quiet --disable-pip-version-check 'uv>=0.9,<1'
# For every machine and every Python that pyproject.toml allows; no index of this machine gets into the files.
compile=("$work/tool/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header)
build=$("$base" -c 'import tomllib; print("\n".join(tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"]))')
printf '%s\n' "$build" >"$work/build.in"
"${compile[@]}" pyproject.toml "$work/build.in" --all-extras --output-file "$work/everything.txt" >/dev/null
grep -E '^[A-Za-z0-9]' "$work/everything.txt" | sed 's/ *\\$//' >"$work/chosen.txt" # versions alone, to hold the parts to
part() { # part NAME ARGUMENT...
  local name=$1
  shift
  say "  $locks/$name.txt"
  "${compile[@]}" --constraints "$work/chosen.txt" --output-file "$work/$name.txt" "$@" >/dev/null
  { printf '# Written by deploy/supply/renew.sh. To install: pip install --require-hashes -r %s.txt\n' "$name" &&
    sed "s|$work/||; /# *-c chosen.txt/d; /#   *via$/{N;s|\n *#  *-c chosen.txt$||}" "$work/$name.txt"; } >"$locks/$name.txt"
}
part run pyproject.toml
for extra in spark prometheus otel backup proxy dev; do
  part "$extra" pyproject.toml --extra "$extra"
done
part build "$work/build.in"

say "installing them, each file by its hash, and listing what that brings"
"$base" -m venv "$work/installed"
install=("$work/installed/bin/python" -m pip install --quiet --disable-pip-version-check --no-build-isolation)
"${install[@]}" --require-hashes -r "$locks/build.txt" # first: Spark's package is built here, with these and no others
"${install[@]}" --require-hashes -r "$locks/run.txt" -r "$locks/spark.txt" -r "$locks/prometheus.txt" -r "$locks/otel.txt" -r "$locks/backup.txt" -r "$locks/proxy.txt"
CC=false "${install[@]}" --no-deps . # without the kernel, which is no package of others
(cd "$work" && installed/bin/zenit sbom make --out zenitmq.cdx.json)
cp "$work/zenitmq.cdx.json" deploy/supply/
say "done; look at the difference: git diff --stat deploy/supply"
