#!/usr/bin/env bash
# install-deps.sh - installs the Debian packages Penstock needs (Debian 12 and 13; Ubuntu has the same names).
#
# What is installed already is left alone and nothing is fetched then, so a second run works without a network.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

usage() {
    cat <<'TEXT'
usage: deploy/install-deps.sh [--check] [--list] [SET...]

  SET        runtime   libraries that installed Penstock programs load
             build     compilers and headers (brings the libraries along)
             test      what tests/run.sh runs besides
             aarch64   compiler and emulator of tests/run.sh --aarch64
             (default: build test)
  --check    installs nothing; names what is missing; exit 1 when something is
  --list     prints the packages of the sets and why each is needed
TEXT
}

# set | package (a * stands for what changes with the Debian release) | why
packages() {
    cat <<'TABLE'
runtime|libzmq5*|message path between clients, broker and workers
runtime|libprotobuf-c1*|messages
runtime|libhiredis[0-9]*|result cache in Redis
runtime|libmicrohttpd12*|metrics, health and the dashboard of the broker
runtime|libxxhash0*|request digests
runtime|libcjson1*|config.json of models, --json output
runtime|libpng16-16*|image decoding in the worker, the client library and the command line tool
runtime|libjpeg62-turbo*|image decoding in the worker, the client library and the command line tool
runtime|libwebp7|image decoding in the worker, the client library and the command line tool
runtime|libwebpdemux2|the first frame of animated WebP pictures
runtime|zlib1g|compressed bodies in the gateway
runtime|libnghttp2-14*|HTTP/2 of the gateway, for gRPC
runtime|libcurl4*|models from web servers and buckets, opened at run time
runtime|libxnnpack0*|fast CPU kernels
runtime|libpthreadpool0*|threads of those kernels
runtime|libncursesw6*|the live view of `penstock top`
runtime|libsodium23*|SHA-256 of model files
runtime|libvulkan1|the Vulkan loader, opened at run time (a GPU needs its driver too)
build|build-essential|C compiler, make, C library headers
build|cmake|the build
build|ninja-build|runs the build, faster than make
build|pkg-config|finds the libraries
build|ccache|makes the second build short
build|protobuf-c-compiler|compiles proto/*.proto
build|libprotobuf-c-dev|messages
build|libzmq3-dev|message path
build|libhiredis-dev|Redis client
build|libmicrohttpd-dev|metrics, health and the dashboard of the broker
build|libxxhash-dev|request digests
build|libcjson-dev|JSON
build|libpng-dev|image decoding
build|zlib1g-dev|compressed bodies in the gateway
build|libcurl4-openssl-dev|models from web servers and buckets
build|libnghttp2-dev|HTTP/2 of the gateway, for gRPC
build|libjpeg-dev|image decoding
build|libwebp-dev|image decoding
build|libxnnpack-dev|fast CPU kernels
build|libcpuinfo-dev|limits XNNPACK's own kernels (cpu_isa_max)
build|libpthreadpool-dev|threads of those kernels
build|libcpuinfo-dev|what XNNPACK asks about the processor
build|libncurses-dev|the live view of `penstock top`
build|libsodium-dev|SHA-256 of model files
build|libvulkan-dev|headers of the Vulkan backend
build|glslc|compiles its shaders
test|libcriterion-dev|test framework
test|mesa-vulkan-drivers|a Vulkan device that computes on the CPU
test|python3-pil|pictures are compared with it
test|python3-numpy|the same
test|chromium|the gateway's page to try a model is opened in it
test|protobuf-compiler|the messages' descriptors of the Python client
test|spirv-tools|checks the shaders that no such device runs
test|vulkan-validationlayers|every Vulkan test runs under them
test|redis-server|the cache tests start their own instances (the package's own service is not used)
test|stunnel4|TLS to Redis is tried through it
test|iproute2|network namespaces: hosts of the fault tests
test|prometheus|promtool reads the metrics; tests start their own instances
test|clang|second compiler, fuzz targets
test|libclang-rt-*-dev|run-time of the fuzz targets
test|clang-format|form of the sources
test|python3|reads JSON in test scripts
test|python3-venv|environments for the packages that benches compare with
test|python3-yaml|reads compose file and chart in tests
test|systemd|systemd-analyze looks at the units
test|nginx-light|tries its example configuration
test|man-db|reads the manual pages
test|caddy|tries its example configuration
test|curl|asks nginx and Caddy
test|libb64-0d|perf_analyzer is linked with it
test|openssl|makes a certificate for a test
test|dpkg-dev|dependencies of the packages
test|lintian|looks at the packages
test|debootstrap|a bare root to install them in
test|doxygen|manual pages of the client library's functions
test|util-linux|setsid, taskset
test|procps|ps
test|git|lists the files to check
aarch64|gcc-aarch64-linux-gnu|compiles for 64-bit Arm (deploy/aarch64.sh fetches the libraries)
aarch64|g++-aarch64-linux-gnu|the same for the C++ examples
aarch64|qemu-user-static|runs what was built
TABLE
}

say() {
    printf 'install-deps: %s\n' "$*"
}

die() {
    printf 'install-deps: %s\n' "$*" >&2
    exit 1
}

# Package names with a * match what is installed by that pattern.
is_installed() {
    local state
    state=$(dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null) && grep -qx installed <<<"$state"
}

# The name to install for a pattern: the newest that apt knows; the sanitizer run-time follows the release's clang.
resolve() {
    local pattern=$1 stem name
    case $pattern in
    'libclang-rt-*-dev') name=$(apt-cache depends clang | sed -n 's/.*Depends: clang-\([0-9]*\)$/libclang-rt-\1-dev/p' | head -n 1) ;;
    *'*')
        stem=${pattern%%[\[*]*}
        name=$(apt-cache pkgnames "$stem" | grep -Ev -- '-(dev|dbg|dbgsym|doc)$' | sort -V | tail -n 1)
        ;;
    *) name=$pattern ;;
    esac
    printf '%s\n' "${name:-${pattern%%[\[*]*}}"
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo --preserve-env=DEBIAN_FRONTEND,LC_ALL "$@"
    fi
}

check_only=false
sets=()
for argument in "$@"; do
    case $argument in
    --check) check_only=true ;;
    --list)
        packages | awk -F'|' '{ printf "%-8s %-24s %s\n", $1, $2, $3 }'
        exit 0
        ;;
    runtime | build | test | aarch64) sets+=("$argument") ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        die "unknown argument '$argument'"
        ;;
    esac
done
[ ${#sets[@]} -gt 0 ] || sets=(build test)

command -v dpkg-query >/dev/null || die "this host has no dpkg: install by hand what 'deploy/install-deps.sh --list' names, under your system's names"

missing=()
while IFS='|' read -r set package reason; do
    case " ${sets[*]} " in *" $set "*) ;; *) continue ;; esac
    if ! is_installed "$package"; then
        missing+=("$package")
        say "missing: $package ($reason)"
    fi
done < <(packages)

if [ ${#missing[@]} = 0 ]; then
    say "all packages are installed (${sets[*]})"
    exit 0
fi
if $check_only; then
    say "${#missing[@]} missing; run deploy/install-deps.sh ${sets[*]}"
    exit 1
fi

command -v apt-get >/dev/null || die "no apt-get here: install the packages above by hand"
if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    die "not root and no sudo: run as root: deploy/install-deps.sh ${sets[*]}"
fi

say "apt-get update"
as_root apt-get -qq -o DPkg::Lock::Timeout=120 update ||
    die "apt-get update failed: check the network and /etc/apt/sources.list, then run this again"

names=()
for package in "${missing[@]}"; do
    names+=("$(resolve "$package")")
done
say "apt-get install ${names[*]}"
if ! as_root apt-get -qq -y --no-install-recommends -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 install "${names[@]}"; then
    die "apt-get install failed (its message is above): mend that, or install by hand: ${names[*]}"
fi
say "installed ${#names[@]} packages"
