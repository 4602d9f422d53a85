#!/usr/bin/env bash
# Builds the image zenitmq:VERSION: the wheels, the bases unless others are named, and the image.
# Usage: deploy/image/build.sh [--tag NAME:TAG] [--base IMAGE --build-base IMAGE]
# Without --base it makes Debian bases of its own, as root, by make_base.sh; what is there already is used again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../set_up.sh"
cd "$here/../.."

version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
tag=zenitmq:$version base='' build_base=''
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || fail "usage: deploy/image/build.sh [--tag NAME:TAG] [--base IMAGE --build-base IMAGE]"
  case $1 in
    --tag) tag=$2 ;;
    --base) base=$2 ;;
    --build-base) build_base=$2 ;;
    *) fail "usage: deploy/image/build.sh [--tag NAME:TAG] [--base IMAGE --build-base IMAGE]" ;;
  esac
  shift 2
done
docker version >/dev/null 2>&1 || fail "no Docker engine answers: start one (on Debian: sudo apt-get install -y docker.io)"

[ "${base:+named}" = "${build_base:+named}" ] || fail "name both, --base and --build-base"
if [ -z "$base" ]; then
  base=zenit-base build_base=zenit-build
  deploy/image/make_base.sh
fi
say "$tag: wheels"
deploy/image/make_wheelhouse.sh build/image/context/wheelhouse
cp "$here"/{Dockerfile,prune.sh,zenit,zenit-lone,zenit-ready} build/image/context/
say "$tag: docker build"
docker build --quiet --tag "$tag" --build-arg "BASE=$base" --build-arg "BUILD_BASE=$build_base" build/image/context >/dev/null 2>build/image/log ||
  fail "docker build failed: $(tail -n 1 build/image/log); if it names another Python, build with that one: PYTHON=python3.N deploy/image/build.sh"
docker image prune --force --filter label=zenit.stage >/dev/null # the folder with all wheels, which nobody needs again
say "built $tag: $(($(docker image inspect --format '{{.Size}}' "$tag") / 1000000)) MB"
