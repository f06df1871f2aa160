#!/usr/bin/env bash
# Which digit is in the picture? examples/clients/digit-from-png.sh [picture.png] [server]
# Two models one after the other: digit_image makes the classifier's input of a PNG, digits names the likeliest three.
set -euo pipefail
picture=${1:-"$(dirname "$0")/../images/seven.png"}
server=${2:-localhost:8000}

# JSON carries the file as base64 text. What digit_image answers under "outputs" is what digits takes under "inputs".
image=$(base64 < "$picture" | tr -d '\n')
curl -sS --fail-with-body "$server/v2/models/digit_image/infer" -d @- <<JSON |
{"inputs": [{"name": "image", "shape": [1, 1], "datatype": "BYTES", "data": ["$image"]}]}
JSON
  sed 's/"outputs":\(.*\)}/"inputs":\1,"outputs":[{"name":"scores","parameters":{"classification":3}}]}/' |
  curl -sS --fail-with-body "$server/v2/models/digits/infer" -d @-
echo
