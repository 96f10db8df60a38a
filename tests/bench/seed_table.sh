#!/usr/bin/env bash
# seed_table.sh BUILD_DIR [--rounds N] [--seconds N] [--check] - installs TensorFlow.js into the cache folder (once), runs seed_table.py.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/usage.sh"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${1:?usage: seed_table.sh BUILD_DIR [--rounds N] [--seconds N] [--check]}
shift
version=4.22.0
folder=${XDG_CACHE_HOME:-$HOME/.cache}/penstock/tfjs-$version
if [ ! -f "$folder/installed" ]; then
    command -v npm >/dev/null || { echo "npm is missing: install it (package npm)" >&2; exit 1; }
    mkdir -p "$folder"
    [ -f "$folder/package.json" ] || echo '{"private": true}' >"$folder/package.json"
    echo "installing TensorFlow.js $version into $folder" >&2
    npm install --prefix "$folder" --ignore-scripts --no-audit --no-fund --silent "@tensorflow/tfjs@$version" "@tensorflow/tfjs-backend-wasm@$version" >&2
    touch "$folder/installed"
fi
exec python3 "$here/seed_table.py" "$build" "$folder" "$@"
