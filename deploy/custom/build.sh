#!/usr/bin/env bash
# build.sh - builds a worker, the engine and its tool with what some models need and nothing else: build.sh custom.json [options]. README.md says more.
set -euo pipefail
exec python3 "$(dirname "$(readlink -f "$0")")/custom.py" "$@"
