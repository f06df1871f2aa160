#!/usr/bin/env bash
# Which digit is this? examples/clients/digits.sh [server]
# 8x8 grey cells, 0 = paper, 16 = ink; asks for the three likeliest answers by name.
set -euo pipefail
server=${1:-localhost:8000}

curl -sS --fail-with-body "$server/v2/models/digits/infer" -d '{
  "inputs": [{"name": "pixels", "shape": [1, 64], "datatype": "FP32", "data": [
    0, 0, 0, 5,15,13, 2, 0,
    0, 0, 0,12, 7,11, 6, 0,
    0, 0, 0, 9,12,15, 1, 0,
    0, 0, 1, 8,16, 4, 0, 0,
    0, 3,15, 8,13, 0, 0, 0,
    0, 7,12, 0,10, 7, 0, 0,
    0, 0,12,11,10, 8, 0, 0,
    0, 0, 0, 6,13,10, 0, 0]}],
  "outputs": [{"name": "scores", "parameters": {"classification": 3}}]}'
echo
