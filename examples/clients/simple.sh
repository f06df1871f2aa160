#!/usr/bin/env bash
# Adds and subtracts two rows of numbers with the model `simple`: examples/clients/simple.sh [server]
set -euo pipefail
server=${1:-localhost:8000}

curl -sS --fail-with-body "$server/v2/models/simple/infer" -d '{
  "inputs": [
    {"name": "INPUT0", "shape": [1, 16], "datatype": "INT32", "data": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]},
    {"name": "INPUT1", "shape": [1, 16], "datatype": "INT32", "data": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}
  ]}'
echo
