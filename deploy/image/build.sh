#!/usr/bin/env bash
# Builds the image zenitmq:VERSION: what is installed in it, its base unless another is named, and the image.
# Usage: deploy/image/build.sh [--tag NAME:TAG] [--base IMAGE]
# Without --base it makes a Debian base of its own, as root, by make_base.sh; one that is there already is used again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../set_up.sh"
cd "$here/../.."

version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
tag=zenitmq:$version base=''
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || fail "usage: deploy/image/build.sh [--tag NAME:TAG] [--base IMAGE]"
  case $1 in
    --tag) tag=$2 ;;
    --base) base=$2 ;;
    *) fail "usage: deploy/image/build.sh [--tag NAME:TAG] [--base IMAGE]" ;;
  esac
  shift 2
done
docker version >/dev/null 2>&1 || fail "no Docker engine answers: start one (on Debian: sudo apt-get install -y docker.io)"

if [ -z "$base" ]; then
  base=zenit-base
  deploy/image/make_base.sh
fi
context=build/image/context
mkdir -p "$context"
say "$tag: what is installed in it"
deploy/image/make_site.sh "$context/site"
cp "$here"/{Dockerfile,zenit,zenit-lone,zenit-ready} "$context/"
say "$tag: docker build"
docker build --quiet --tag "$tag" --build-arg "BASE=$base" "$context" >/dev/null 2>build/image/log ||
  fail "docker build failed: $(tail -n 1 build/image/log); if it names another Python, build with that one: PYTHON=python3.N deploy/image/build.sh"
docker image prune --force --filter label=zenit.image >/dev/null # those in whose place these are
say "built $tag: $(($(docker image inspect --format '{{.Size}}' "$tag") / 1000000)) MB"
