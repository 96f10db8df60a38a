#!/bin/bash
# install_test.sh BUILD SOURCE CC CXX - installs into a fresh folder and uses the library as a stranger would: the header as C and C++,
# examples/one_image.c through pkg-config and through the CMake package, the shared and the static library, and nothing else exported.
set -euo pipefail
build=$1 source=$2 cc=$3 cxx=$4
work=$(mktemp -d /tmp/penstock-install.XXXXXX)
trap 'rm -rf "$work"' EXIT
die() {
    echo "install_test: $*" >&2
    exit 1
}

cmake --install "$build/client-lib" --prefix "$work/usr" >"$work/install.log" || { cat "$work/install.log"; die "cmake --install failed"; }
lib=$(dirname "$(find "$work/usr" -name penstock.pc)")/..
export PKG_CONFIG_PATH=$lib/pkgconfig LD_LIBRARY_PATH=$lib

echo '#include <penstock/client.h>
int main(void) { struct pen_job_options o; pen_job_options_init(&o, sizeof o); return pen_client_version()[0] == 0; }' >"$work/use.c"
cp "$work/use.c" "$work/use.cpp"
flags=$(pkg-config --cflags penstock) libs=$(pkg-config --libs penstock)
for std in c99 c11 c17; do
    $cc -std=$std -Wall -Wextra -Wpedantic -Werror "$work/use.c" -o "$work/use_c" $flags $libs || die "the header does not compile as $std"
done
for std in c++11 c++17; do
    $cxx -std=$std -Wall -Wextra -Wpedantic -Werror "$work/use.cpp" -o "$work/use_cpp" $flags $libs || die "the header does not compile as $std"
done
echo '#include <penstock/penstock.hpp>
int main() { penstock::request r("digits"); return penstock::client::try_connect() ? 0 : 1; }' >"$work/short.cpp"
$cxx -std=c++17 -Wall -Wextra -Wpedantic -Wconversion -Werror "$work/short.cpp" -o "$work/short" $flags $libs -pthread || die "penstock.hpp does not compile"
"$work/short" || die "a program of penstock.hpp does not run"
"$work/use_c" && "$work/use_cpp" || die "a program does not run against the shared library"

$cc "$work/use.c" -o "$work/use_static" $flags "$lib/libpenstock.a" $(pkg-config --libs libzmq libprotobuf-c libsodium libcjson libpng libjpeg libwebp libwebpdemux) -pthread -lm ||
    die "the static library does not link"
"$work/use_static" || die "the statically linked program does not run"
! readelf -d "$work/use_static" | grep -q libpenstock || die "linked the shared library instead"

readelf -d "$lib/libpenstock.so" | grep -q 'SONAME.*libpenstock.so.0' || die "wrong soname"
strangers=$(nm -D --defined-only "$lib/libpenstock.so" | awk '{ print $3 }' | grep -v -e '^pen_.*@@PENSTOCK_0$' -e '^PENSTOCK_0$' || true)
[ -z "$strangers" ] || die "exports more than pen_*: $strangers"
strangers=$(nm --defined-only "$lib/libpenstock.a" | awk '$2 ~ /^[A-TV-Z]$/ { print $3 }' | grep -v '^pen_' || true)
[ -z "$strangers" ] || die "the static library exports more than pen_*: $strangers"

$cc "$source/client-lib/examples/one_image.c" -o "$work/one_image" $(pkg-config --cflags --libs penstock) || die "one_image with pkg-config"
"$work/one_image" 2>"$work/usage" && die "one_image without a file must fail"
grep -q usage "$work/usage" || die "one_image does not say how to use it"

$cxx -std=c++17 "$source/client-lib/examples/one_image.cpp" -o "$work/one_image_cpp" $(pkg-config --cflags --libs penstock) -pthread || die "one_image.cpp with pkg-config"
"$work/one_image_cpp" 2>"$work/usage" && die "one_image_cpp without a file must fail"
grep -q usage "$work/usage" || die "one_image_cpp does not say how to use it"

mkdir "$work/project"
cp "$source/client-lib/examples/one_image.c" "$work/short.cpp" "$work/project"
cat >"$work/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(user C CXX)
find_package(penstock 0.1 REQUIRED)
add_executable(one_image one_image.c)
target_link_libraries(one_image PRIVATE penstock::penstock)
add_executable(short short.cpp)
target_compile_features(short PRIVATE cxx_std_20)
target_link_libraries(short PRIVATE penstock::penstock)
END
cmake -S "$work/project" -B "$work/project/build" -DCMAKE_PREFIX_PATH="$work/usr" >"$work/cmake.log" 2>&1 || { cat "$work/cmake.log"; die "find_package(penstock)"; }
cmake --build "$work/project/build" >"$work/cmake.log" 2>&1 || { cat "$work/cmake.log"; die "building with the CMake package"; }
echo "install_test: header as C and C++, shared, static, pkg-config, CMake package: fine"
