#!/bin/sh
# Brings a new version of a model into production: check, copy, roll out, wait. Exit 0: it serves everybody. Exit 1: the old one does.
#
#   release.sh MODELS MODEL VERSION FOLDER      MODELS is the server's repository, FOLDER the new version
#
# GALATEA_URL is the HTTP port of the server (http://localhost:8000); WAIT the most seconds that a rollout may take (3600).
set -eu
models=$1 model=$2 version=$3 folder=$4
here=$(dirname "$0")
export GALATEA_URL="${GALATEA_URL:-http://localhost:8000}"
name="$model-$version-$(date +%s)"

# The version in a copy of the model's folder: a mistake is found before the server sees it.
draft=$(mktemp -d)
trap 'rm -rf "$draft"' EXIT
cp -r "$models/$model" "$draft/$model"
cp -r "$folder" "$draft/$model/$version"
galatea check "$draft"

# Its folder appears in one step.
cp -r "$folder" "$models/$model/.$version.new"
mv "$models/$model/.$version.new" "$models/$model/$version"

# The rollout loads the version, gives it its first requests, and goes back by itself where it is worse.
galatea rollout start "$model" --candidate "$version" --name "$name" --file "${ROLLOUT:-$here/rollout.yaml}"
if galatea rollout show "$name" --wait "${WAIT:-3600}"; then
  galatea rollout report "$name"
  exit 0
fi
echo "release.sh: version $version of '$model' did not take over; the version before serves" >&2
exit 1
