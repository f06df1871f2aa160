#!/bin/sh
# Looks at a server that was just deployed: alive, ready, its models, one inference, its metrics. Exit 1 with the first thing that is wrong.
#
#   smoke.sh [URL] [METRICS_URL]
#
# MODEL and BODY name another inference than that of the example `simple`; TOKEN is sent as a bearer token.
set -eu
url=${1:-http://localhost:8000}
metrics=${2:-}
model=${MODEL:-simple}
zeros=0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0
input() { printf '{"name":"%s","shape":[1,16],"datatype":"INT32","data":[%s]}' "$1" "$zeros"; }
body=${BODY:-"{\"inputs\":[$(input INPUT0),$(input INPUT1)]}"}

ask() {
  what=$1
  shift
  if ! curl -fsS --max-time 10 ${TOKEN:+-H "Authorization: Bearer $TOKEN"} -o /dev/null "$@"; then
    echo "smoke.sh: $what: failed" >&2
    exit 1
  fi
  echo "$what: ok"
}

ask alive "$url/v2/health/live"
ask ready "$url/v2/health/ready"
ask "list of models" -X POST "$url/v2/repository/index"
ask "model $model is ready" "$url/v2/models/$model/ready"
ask "inference" -X POST -d "$body" "$url/v2/models/$model/infer"
[ -z "$metrics" ] || ask metrics "$metrics/metrics"
