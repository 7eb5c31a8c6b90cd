#!/usr/bin/env bash
# Whole programs: those of this folder and of examples/, and the examples in C; the last line counts.
#   programs.sh BUILD                    BUILD: folder of nbx
#   NBX_SAMPLES="FOLDER ..."             more folders of programs, as run_samples.sh takes them
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build}
passed=0 failed=0 skipped=0

# Takes over the counts of a last line "N passed, N failed, N skipped".
add() {
    read -r p f s <<<"$(tail -n 1 <<<"$1" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p')"
    passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1})) skipped=$((skipped + ${s:-0}))
    grep -A 5 '^FAIL' <<<"$1" >&2
}

shopt -s nullglob
for folder in tests/programs/samples examples ${NBX_SAMPLES-}; do
    [ -d "$folder" ] && add "$(sh tests/programs/run_samples.sh "$build/nbx" "${folder%/}" 2>&1)"
done
for example in digits transformer_block; do
    if output=$("$build/examples/$example" 2>&1); then passed=$((passed + 1))
    else failed=$((failed + 1)); printf 'FAIL %s: %s\n' "$example" "$output" >&2; fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
