# shellcheck shell=bash
# What script/demo and script/test share: installing what is missing, building, counting results. Sourced by bash.
set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export LC_ALL=C

JOBS=${JOBS:-$(nproc)}

# With the seconds since the start.
say() { printf '\n== %s (%d s)\n' "$*" "$SECONDS" >&2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else
        echo "This needs root or sudo: $*" >&2
        return 1
    fi
}

# need PACKAGE TEST...: notes a Debian or Ubuntu package as missing when the test fails.
MISSING=()
need() {
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || MISSING+=("$package")
}

has_header() { echo "#include <$1>" | cc -E -x c - ; }

# Installs what the tests above found missing, and nothing else.
install_missing() {
    [ ${#MISSING[@]} = 0 ] && return 0
    say "installing ${MISSING[*]}"
    as_root apt-get update -qq &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${MISSING[@]}" >&2
    local status=$?
    MISSING=()
    return $status
}

install_build_tools() {
    need gcc command -v cc
    need libc6-dev has_header stdio.h
    need cmake command -v cmake
    need ninja-build command -v ninja
    need pkg-config command -v pkg-config
    need zlib1g-dev has_header zlib.h
    install_missing
}

install_test_tools() {
    need libcmocka-dev test -e /usr/include/cmocka.h
    need libasan8 test -n "$(find /usr/lib/gcc -name libasan.so 2>/dev/null)"
    need liblapack3 test -n "$(find /usr/lib /usr/lib64 -name 'liblapack.so.3' -o -name 'libopenblas.so.0' 2>/dev/null)"
    install_missing
}

# build FOLDER TARGET... -- CMAKE_OPTION...: configures once, builds.
build() {
    local folder=$1 targets=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        targets+=("$1")
        shift
    done
    [ $# -gt 0 ] && shift
    local launcher=()
    command -v ccache >/dev/null && launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
    cmake -S . -B "$folder" -G Ninja "${launcher[@]}" "$@" >&2 && cmake --build "$folder" -j "$JOBS" --target "${targets[@]}" -- --quiet >&2
}

# NBX_WERROR=ON in the environment makes warnings errors.
# NBX_CUDA_ARCHS names other architectures than the newest; where nvcc is, compiling for all of them takes long.
build_release() {
    build build "${@:-all}" -- -DCMAKE_BUILD_TYPE=Release -DNBX_WERROR="${NBX_WERROR:-OFF}" -DNBX_CUDA_ARCHS="${NBX_CUDA_ARCHS:-90a-real}"
}

# --------------------------------------------------------------------------------------------------------- counting
PASSED=0 FAILED=0 SKIPPED=0

count() {
    PASSED=$((PASSED + $1))
    FAILED=$((FAILED + $2))
    SKIPPED=$((SKIPPED + $3))
}

# count_last_line NAME STATUS LOG: adds the "N passed, N failed, N skipped" that a program ends with; a program that says
# nothing of the kind counts as one test.
count_last_line() {
    local name=$1 status=$2 log=$3 line
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
    if [ -n "$line" ]; then
        # shellcheck disable=SC2086
        set -- $line
        count "$1" "$3" "$5"
        [ "$3" = 0 ] || { echo "FAIL $name: $3 failed" >&2; grep -E '^FAIL' "$log" | head -n 20 >&2; }
        if [ "$status" != 0 ] && [ "$3" = 0 ]; then
            count 0 1 0
            echo "FAIL $name: exit status $status" >&2
        fi
    elif [ "$status" = 0 ]; then count 1 0 0
    else
        count 0 1 0
        echo "FAIL $name: exit status $status" >&2
        tail -n 40 "$log" >&2
    fi
}

# run_counted NAME COMMAND...: runs, shows failures, adds to the counts.
run_counted() {
    local name=$1 log status
    shift
    log=$(mktemp)
    "$@" >"$log" 2>&1
    status=$?
    grep -E '^FAIL|ERROR: |runtime error' "$log" | head -n 60 >&2
    count_last_line "$name" $status "$log"
    printf '%s: %s\n' "$name" "$(tail -n 1 "$log")" >&2
    rm -f "$log"
}

shopt -s nullglob
GOLDEN=(tests/golden/*.safetensors)
LOGS=$(mktemp -d)
trap 'rm -rf "$LOGS"' EXIT

finish() {
    echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
    [ "$FAILED" = 0 ]
    exit
}

# A step that everything else needs.
must() {
    local name=$1
    shift
    say "$name"
    "$@" && return
    echo "FAIL $name" >&2
    count 0 1 0
    finish
}

# unit_tests FOLDER [PATTERN]: every unit test in a process of its own, as many at a time as there are processors.
unit_tests() {
    local folder=$1 pattern=${2:-.} name log status
    rm -f "$LOGS"/*
    # shellcheck disable=SC2016
    "$folder/nbx-tests" | grep -E "$pattern" | FOLDER=$folder LOGS=$LOGS xargs -P "$JOBS" -I{} \
        bash -c 'timeout 300 "$FOLDER/nbx-tests" {} >"$LOGS/{}.log" 2>&1; echo $? >"$LOGS/{}.status"'
    for log in "$LOGS"/*.log; do
        name=$(basename "$log" .log)
        status=$(cat "${log%.log}.status" 2>/dev/null || echo 99)
        count_cmocka "$name" "$status" "$log"
    done
}

# cmocka says "[  PASSED  ] 3 test(s)." for each group; a test program without cmocka counts as one.
count_cmocka() {
    local name=$1 status=$2 log=$3 passed failed skipped
    sum() { grep -E "^\[  $1 *\] [0-9]+ test\(s\)" "$log" | awk '{for (i = 1; i < NF; i++) if ($(i + 1) ~ /^test/) n += $i} END {print n + 0}'; }
    passed=$(sum PASSED) failed=$(sum FAILED) skipped=$(sum SKIPPED)
    if [ $((passed + failed + skipped)) = 0 ]; then
        count_last_line "$name" "$status" "$log"
        return
    fi
    [ "$status" != 0 ] && [ "$failed" = 0 ] && failed=1
    count "$passed" "$failed" "$skipped"
    [ "$failed" = 0 ] && return
    echo "FAIL $name (exit status $status)" >&2
    grep -vE '^\[ +(RUN|OK) +\]' "$log" | tail -n 30 >&2
}

has_isa() {
    case $1 in
        avx2) grep -qw avx2 /proc/cpuinfo ;;
        avx512) grep -qw avx512vl /proc/cpuinfo ;;
        *) true ;;
    esac
}

# same_bits FOLDER ISA...: golden cases give the same bits from three threads of every ISA as from one thread of the first.
same_bits() {
    local folder=$1 first=$2 reference=$LOGS/reference other=$LOGS/other isa
    shift
    has_isa "$first" || { count 0 0 1; return; }
    "$folder/nbx-conform" "${GOLDEN[@]}" --isa "$first" --threads 1 --hashes "$reference" >/dev/null 2>&1
    for isa in "$@"; do
        has_isa "$isa" || { count 0 0 1; continue; }
        "$folder/nbx-conform" "${GOLDEN[@]}" --isa "$isa" --threads 3 --hashes "$other" >/dev/null 2>&1
        if [ -s "$reference" ] && cmp -s "$reference" "$other"; then count 1 0 0
        else
            count 0 1 0
            echo "FAIL same bits: $isa with 3 threads differs from $first with 1 thread in" >&2
            diff "$reference" "$other" | grep '^>' | head -n 20 >&2
        fi
    done
}
