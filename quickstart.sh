#!/usr/bin/env bash
# From a fresh clone to real files going through a real name server and a real broker, and coming out whole; then through
# a group of three, whose master is killed on the way; at last a report by Spark on the files.
# Usage: ./quickstart.sh [DIR]     DIR: where the cluster lives; without one, a temporary directory, removed at the end.
# Sets up .venv by itself; on a Debian or Ubuntu where it is root it also installs a C compiler and Python's headers.
set -euo pipefail
cd "$(dirname "$0")"
. deploy/set_up.sh
set_up ''
bring_spark

work=$(mktemp -d)
directory=${1:-$work/cluster}
mkdir -p "$directory"
finish() {
  code=$?
  "$zenit" down --dir "$directory" >/dev/null 2>&1 || true
  "$zenit" down --dir "$directory/group" >/dev/null 2>&1 || true
  rm -rf "$work"
  exit "$code"
}
trap finish EXIT

echo
echo "== a cluster: one name server, one broker ($("$zenit" --version))"
"$zenit" up --dir "$directory" --set store.segment_bytes=67108864 --detach
status=$("$zenit" status --dir "$directory" --json)
field() { printf '%s' "$status" | "$python" -c "import json, sys; status = json.load(sys.stdin); print($1)"; }
ZENIT_NAMESRV=$(field 'status["namesrv"]')
export ZENIT_NAMESRV
store=$(field 'next(p["store_dir"] for p in status["processes"] if p["role"] == "broker")')

echo
echo "== files of this machine through it, one message a line, and back"
files=() topics=()
for file in /var/log/dpkg.log /var/lib/dpkg/status README.md LICENSE record/kernel.py; do
  [ ! -s "$file" ] || files+=("$file")
done
number=0
run=$(date +%s)
for file in "${files[@]}"; do
  number=$((number + 1))
  topic="quickstart-$run-$number"
  topics+=("$topic")
  "$zenit" topic create "$topic" --queues 4 >/dev/null
  "$zenit" produce "$topic" --file "$file" --key-field 1
  "$zenit" consume "$topic" --group quickstart --from earliest --idle-exit 2 --format '{queue_id} {body}' >"$work/consumed"
  "$python" -m zenitmq.deploy.line_check "$file" "$work/consumed"
done

echo
echo "== one of the messages, found again by its key"
key=$(awk 'NF { print $1; exit }' "${files[0]}")
"$zenit" message query --topic "quickstart-$run-1" --key "$key" | head -n 5

echo
echo "== where the group stands"
"$zenit" group describe quickstart | head -n 8

echo
echo "== the store, read again from the first byte to the last"
"$zenit" store verify "$store"

echo
echo "== down"
"$zenit" down --dir "$directory"

echo
echo "== a group of three replicas, a controller and ZooKeeper"
group="$directory/group"
"$zenit" up --dir "$group" --replicas 3 --set store.segment_bytes=67108864 --detach
status=$("$zenit" status --dir "$group" --json)
ZENIT_NAMESRV=$(field 'status["namesrv"]')
"$zenit" topic create survivors --queues 4

echo
echo "== one file, then its master is killed, then another file"
"$zenit" produce survivors --file README.md
master=$("$zenit" status --dir "$group" --json |
  "$python" -c 'import json, sys; print(json.load(sys.stdin)["groups"][0]["master"])')
kill -9 "$(field "next(p['pid'] for p in status['processes'] if p['name'] == '$master')")"
echo "killed $master"
"$zenit" produce survivors --file LICENSE
"$zenit" consume survivors --group quickstart --from earliest --idle-exit 2 --format '{queue_id} {body}' >"$work/consumed"
cat README.md LICENSE >"$work/both"
"$python" -m zenitmq.deploy.line_check "$work/both" "$work/consumed"
"$zenit" status --dir "$group"
"$zenit" down --dir "$group"

echo
echo "== the first cluster again, which holds what it held; and a report by Spark on what went through it"
"$zenit" up --dir "$directory" --set store.segment_bytes=67108864 --detach
status=$("$zenit" status --dir "$directory" --json)
ZENIT_NAMESRV=$(field 'status["namesrv"]')
rows=$(printf 'SELECT topic, keys, body FROM `%s` UNION ALL ' "${topics[@]}")
"$zenit" sql "SELECT topic, count(*) AS messages, sum(length(body)) AS bytes, max(length(body)) AS longest,
  count(DISTINCT keys) AS first_words FROM (${rows% UNION ALL }) GROUP BY topic ORDER BY topic"
"$zenit" down --dir "$directory"

echo
echo "It works. Next: . .venv/bin/activate; zenit --help; zenit bench produce; docs/quickstart.md"
