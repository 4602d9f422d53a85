#!/usr/bin/env bash
# Makes the two bases of the image from Debian's packages, where no registry is reachable: zenit-base, Debian with Python and
# little else, and zenit-build, with pip and strip besides. Where they are there already, it does nothing.
# Usage: deploy/image/make_base.sh [--again]     as root, with a Docker engine; installs debootstrap if that is missing
#   ZENIT_DEBIAN_MIRROR=http://...   where Debian's packages come from; this machine's own source, or deb.debian.org, unless set
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../set_up.sh"

if [ "${1:-}" != --again ] && docker image inspect zenit-base zenit-build >/dev/null 2>&1; then exit 0; fi
[ "$(id -u)" = 0 ] || fail "making a base needs root: sudo deploy/image/make_base.sh; or build on images of a registry (docs/containers.md)"
command -v debootstrap >/dev/null || apt_install debootstrap debootstrap ||
  fail "making a base needs debootstrap; or build on images of a registry (docs/containers.md)"

# The wheels are made by this machine's Python: the base needs one of the same version.
minor=$("$(find_python)" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
case $minor in
  3.11) suite=bookworm ;;
  3.13) suite=trixie ;;
  *) fail "no release of Debian has Python $minor; name one of 3.11 or 3.13: PYTHON=python3.11 deploy/image/build.sh" ;;
esac
mirror=${ZENIT_DEBIAN_MIRROR:-}
if [ -z "$mirror" ] && grep -qx 'ID=debian' /etc/os-release; then
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | head -n 1) || true
fi
mirror=${mirror:-http://deb.debian.org/debian}
mirror=${mirror%/}

# In memory, where there is room: dpkg syncs each file that it writes. Nobody else sees this mount, and it ends with us.
work=$(mktemp -d)
if [ "${ZENIT_OWN_MOUNTS:-}" != 1 ] && unshare --mount true 2>/dev/null; then
  rmdir "$work"
  ZENIT_OWN_MOUNTS=1 exec unshare --mount "$here/make_base.sh" --again
fi
trap 'umount "$work" 2>/dev/null || :; rm -rf "$work"' EXIT
if [ "${ZENIT_OWN_MOUNTS:-}" = 1 ] && [ "$(awk '/^MemAvailable/ {print $2}' /proc/meminfo)" -gt 2000000 ]; then
  mount -t tmpfs -o size=1500m zenit-base "$work"
fi
root=$work/root

say "zenit-base: debootstrap of $suite from $mirror"
run() { # its output only if it fails
  "$@" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2 && fail "failed: $*"; }
}
run debootstrap --variant=minbase --include=python3 "$suite" "$root" "$mirror"
inside() { run env DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }
# Debian's security archive lies beside the main one.
echo "deb ${mirror%/debian}/debian-security $suite-security main" >"$root/etc/apt/sources.list.d/security.list"
cp /etc/resolv.conf "$root/etc/resolv.conf"
if chroot "$root" apt-get -qq update >/dev/null 2>&1; then
  inside apt-get -qq upgrade -y --no-install-recommends
else
  say "zenit-base: ${mirror%/debian}/debian-security is not reachable; going on without security updates"
fi
inside apt-get clean
packed() { # packed NAME EXCLUDED...: makes an image of what is in the root
  local name=$1
  shift
  tar -C "$root" --numeric-owner "${@/#/--exclude=./}" -c . | docker import --change 'CMD ["bash"]' - "$name" >/dev/null
}
places=('dev/*' 'proc/*' 'sys/*' 'tmp/*' etc/resolv.conf)
# Of the byte code, what is used is made anew in the image.
packed zenit-base "${places[@]}" 'var/lib/apt/lists/*' 'var/cache/*' 'var/log/*' '__pycache__' \
  usr/share/{doc,man,locale,info,lintian}/'*'
inside apt-get -qq install -y --no-install-recommends python3-venv binutils
inside apt-get clean
packed zenit-build "${places[@]}"
say "made zenit-base and zenit-build: Debian $suite, Python $minor"
