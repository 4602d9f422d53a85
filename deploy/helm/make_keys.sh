#!/usr/bin/env bash
# Makes the keys of a cluster on Kubernetes, by `zenit key cluster`: a key file for each pod of the chart, the trusted file, and
# the administrator's key. A key that is there stays, so that a pod is added by the same command.
# Usage: deploy/helm/make_keys.sh RELEASE NAMESPACE DIRECTORY
#   as the chart's values, where they differ: NAME_SERVERS=2 CONTROLLERS=3 GROUPS_OF_BROKERS="broker-a" REPLICAS=3 CLUSTER=zenit
#   CLUSTER_DOMAIN=cluster.local PROXIES=0; ZENIT_BIN: the zenit command
# Prints the command that makes the Secret. The administrator's key stays out of it: keep it.
set -euo pipefail

[ $# = 3 ] || {
  sed -n '2,8s/^# //p' "$0" >&2
  exit 2
}
release=$1 namespace=$2 directory=$3

servers=() pods=()
add() { # add SET COUNT PORT: pods that others find by an address; without PORT, brokers of the group SET
  local number pod
  for ((number = 0; number < $2; number++)); do
    pod=$release-$1-$number
    pods+=("$pod")
    servers+=("${3:+$pod=$pod.$release-$1.$namespace.svc.${CLUSTER_DOMAIN:-cluster.local}:$3}")
    [ -n "${3:-}" ] || servers[-1]=$1/$pod
  done
}
add namesrv "${NAME_SERVERS:-2}" 9876
add controller "${CONTROLLERS:-3}" 9878
for group in ${GROUPS_OF_BROKERS:-broker-a}; do add "$group" "${REPLICAS:-3}"; done
for ((number = 0; number < ${PROXIES:-0}; number++)); do
  pods+=("$release-proxy-$number")
  servers+=("--proxy=$release-proxy-$number")
done
"${ZENIT_BIN:-zenit}" key cluster "$directory" "${servers[@]}" --cluster "${CLUSTER:-zenit}" >/dev/null

printf 'kubectl create secret generic zenit-keys --namespace %s --from-file=%s --from-file=%s' "$namespace" "$directory/trusted.toml" "$directory/users.secrets"
printf -- " --from-file=$directory/%s.key" "${pods[@]}"
printf '\n'
