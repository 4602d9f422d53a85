#!/usr/bin/env bash
# Builds the image zenit-prometheus, for compose, where no registry is reachable.
# Usage: deploy/image/prometheus/build.sh     as root on Debian
# The program comes out of Debian's package `prometheus`, which is not installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../set_up.sh"
cd "$here/../../.."
deploy/image/make_base.sh

context=build/image/prometheus
mkdir -p "$context"
[ -x "$context/prometheus" ] || apt_unpack Prometheus prometheus usr/bin/prometheus "$context/prometheus" ||
  fail "or take an image of a registry: ZENIT_PROMETHEUS_IMAGE=prom/prometheus"
cp "$here/Dockerfile" "$context/"
docker build --quiet --tag zenit-prometheus "$context" >/dev/null 2>"$context/log" ||
  fail "docker build failed: $(tail -n 1 "$context/log")"
say "built zenit-prometheus: $(($(docker image inspect --format '{{.Size}}' zenit-prometheus) / 1000000)) MB"
