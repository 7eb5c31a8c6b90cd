#!/usr/bin/env bash
# What cmake --install leaves behind: used by find_package and by pkg-config, and nothing exported but nbx_. Then the presets.
#   install.sh BUILD     the last line counts
set -u
cd "$(dirname "$0")/.." || exit 1
build=$(realpath "${1:-build}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
passed=0 failed=0 skipped=0

# check NAME COMMAND...
check() {
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then passed=$((passed + 1))
    else failed=$((failed + 1)); printf 'FAIL %s: %s\n' "$name" "$output"; fi
}

installs() { cmake --install "$build" --prefix "$prefix"; }

only_nbx_symbols() {
    local names
    names=$(nm -D --defined-only "$library" | awk '{sub(/@.*/, "", $NF); print $NF}')
    grep -qx nbx_context_create <<<"$names" && ! grep -vE '^(nbx_.*|NBX_[0-9]+)$' <<<"$names"
}

versioned() { objdump -p "$library" | grep -E "SONAME +libnbx\.so\.[0-9]+$" && [ -L "$library" ]; }

# The first program of the README. It must say what softmax(x x^T) is.
consumer() {
    sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d' >"$work/first.c"
    cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(first LANGUAGES C)
find_package(nbx 0.1 REQUIRED)
foreach(form nbx nbx_static)
    add_executable(first_${form} first.c)
    target_link_libraries(first_${form} PRIVATE nbx::${form})
endforeach()
END
    grep -q nbx_softmax "$work/first.c"
}

by_find_package() { cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$work/build"; }

by_pkg_config() {
    local flags
    flags=$(PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name nbx.pc)") pkg-config --cflags --libs nbx) || return
    # shellcheck disable=SC2086
    "${CC:-cc}" "$work/first.c" -o "$work/first" $flags
}

says_softmax() { LD_LIBRARY_PATH=$(dirname "$library") "$@" | grep -F 'float32 [2, 2]'; }

# Leaves the build folder of the preset alone.
configures() { cmake --preset "$1" -B "$work/$1"; }

check "cmake --install" installs
library=$(find "$prefix" -name libnbx.so)
check "libnbx.so exports nbx_ only" only_nbx_symbols
check "libnbx.so has a version" versioned
check "the program of the README" consumer
check "find_package(nbx)" by_find_package
check "pkg-config nbx" by_pkg_config
for program in "$work"/build/first_nbx "$work"/build/first_nbx_static "$work"/first; do
    check "runs ${program##*/}" says_softmax "$program"
done
check "the installed nbx" "$prefix/bin/nbx" --version
for preset in release debug asan tsan coverage; do
    check "preset $preset" configures "$preset"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
