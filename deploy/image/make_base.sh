#!/usr/bin/env bash
# Makes the image zenit-base from Debian's packages, where no registry is reachable: Debian with Python and little else. Where it is
# there already, it does nothing.
# Usage: deploy/image/make_base.sh [--again]     as root, with a Docker engine; installs mmdebstrap if that is missing
#   ZENIT_DEBIAN_MIRROR=http://...   where Debian's packages come from; this machine's own source, or deb.debian.org, unless set
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../set_up.sh"

if [ "${1:-}" != --again ] && docker image inspect zenit-base >/dev/null 2>&1; then exit 0; fi
[ "$(id -u)" = 0 ] || fail "making a base needs root: sudo deploy/image/make_base.sh; or build on an image of a registry (docs/containers.md)"
command -v mmdebstrap >/dev/null || apt_install mmdebstrap mmdebstrap ||
  fail "making a base needs mmdebstrap; or build on an image of a registry (docs/containers.md)"

# What is compiled is so for this machine's Python: the base needs one of the same version.
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
security=${mirror%/debian}/debian-security # beside the main archive

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

# Without documents, but for the licences; in the image too, if a package is added to it.
places=('doc/*' 'man/*' 'locale/*' 'info/*' 'lintian/*')
options=(--quiet --variant=minbase --include=python3,usr-is-merged "${places[@]/#/--dpkgopt=path-exclude=/usr/share/}")
options+=('--dpkgopt=path-include=/usr/share/doc/*/copyright')
merged=/usr/share/mmdebstrap/hooks/merged-usr # without it the package usrmerge does that, and needs all of Perl
[ ! -d "$merged" ] || options+=("--hook-dir=$merged")
sources=("deb $mirror $suite main" "deb $security $suite-security main")
debian() { # debian SOURCE...: makes the root; what it says is in the log
  rm -rf "$work/root"
  TMPDIR=$work mmdebstrap "${options[@]}" "$suite" "$work/root" "$@" >"$work/log" 2>&1
}
say "zenit-base: Debian $suite from $mirror"
debian "${sources[@]}" || {
  say "zenit-base: it did not work with $security; once more without security updates"
  debian "${sources[0]}" || fail "mmdebstrap failed: $(tail -n 5 "$work/log")"
}
# Of the byte code, what is used is made anew in the image.
tar -C "$work/root" --numeric-owner --exclude=./{dev,proc,sys,tmp,var/log}/'*' --exclude=./etc/resolv.conf --exclude=__pycache__ -c . |
  docker import --change 'CMD ["bash"]' --change 'LABEL zenit.image=base' - zenit-base >/dev/null
say "made zenit-base: Debian $suite, Python $minor"
