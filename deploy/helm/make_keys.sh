#!/usr/bin/env bash
# Makes the keys of a cluster on Kubernetes: a key file for each pod of the chart, the trusted file, and the administrator's key.
# Usage: deploy/helm/make_keys.sh RELEASE NAMESPACE DIRECTORY
#   as the chart's values, where they differ: NAME_SERVERS=2 CONTROLLERS=3 GROUPS_OF_BROKERS="broker-a" REPLICAS=3 CLUSTER=zenit
#   CLUSTER_DOMAIN=cluster.local; ZENIT_BIN: the zenit command
# Prints the command that makes the Secret. The administrator's key stays out of it: keep it.
set -euo pipefail

[ $# = 3 ] || {
  sed -n '2,7s/^# //p' "$0" >&2
  exit 2
}
release=$1 namespace=$2 directory=$3
zenit=${ZENIT_BIN:-zenit}
[ ! -e "$directory" ] || {
  echo "$directory exists already: name a directory that is to be made, so that no key is replaced" >&2
  exit 1
}
mkdir -m 700 "$directory"
trusted=$directory/trusted.toml

public() { sed -n 's/^public = "\(.*\)"$/\1/p' "$directory/$1.key"; }
user() { # user NAME KIND [LINE...]
  local name=$1 kind=$2
  shift 2
  printf '[[user]]\nname = "%s"\nkind = "%s"\nkeys = ["%s"]\n' "$name" "$kind" "$(public "$name")"
  [ $# = 0 ] || printf '%s\n' "$@"
  printf '\n'
}
server() { # server SET NUMBER GROUP [PORT]
  local pod=$release-$1-$2
  "$zenit" key new "$pod" --out "$directory/$pod.key" >/dev/null
  local lines=("cluster = \"${CLUSTER:-zenit}\"" "group = \"$3\"" "replica = \"$pod\"")
  [ -z "${4:-}" ] ||
    lines+=("addresses = [\"$pod.$release-$1.$namespace.svc.${CLUSTER_DOMAIN:-cluster.local}:$4\"]")
  user "$pod" server "${lines[@]}" >>"$trusted"
}

servers=()
for ((number = 0; number < ${NAME_SERVERS:-2}; number++)); do
  server namesrv "$number" "" 9876
  pod=$release-namesrv-$number
  servers+=(--server "$pod.$release-namesrv.$namespace.svc.${CLUSTER_DOMAIN:-cluster.local}:9876=$(public "$pod")")
done
for ((number = 0; number < ${CONTROLLERS:-3}; number++)); do
  server controller "$number" "" 9878
done
for group in ${GROUPS_OF_BROKERS:-broker-a}; do
  for ((number = 0; number < ${REPLICAS:-3}; number++)); do
    server "$group" "$number" "$group"
  done
done
"$zenit" key new admin --out "$directory/admin.key" "${servers[@]}" >/dev/null
user admin super >>"$trusted"
chmod 644 "$trusted"

printf 'kubectl create secret generic zenit-keys --namespace %s --from-file=%s' "$namespace" "$trusted"
for file in "$directory"/"$release"-*.key; do printf ' --from-file=%s' "$file"; done
printf '\n'
