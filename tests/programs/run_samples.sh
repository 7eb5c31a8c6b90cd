#!/bin/sh
# Runs every sample program of a folder through `nbx run --expect` and says which pass.
#
#   run_samples.sh NBX FOLDER [NAME ...]     NBX: the command; NAME: without .pt2; all if none is given
#
# NAME.inputs[.K].safetensors and NAME.expected[.K].safetensors are the sets of a program, run in order in one process;
# NAME.state.safetensors holds its buffers afterwards; index*.json may give a seed. In folders made by make_versions.py,
# NAME.step2.safetensors is what a second run on the same inputs gives, NAME.after.safetensors the inputs after the run.
# Extra options for nbx run come from $NBX_RUN_OPTIONS. The last line counts.
set -u
nbx=$1
folder=$2
shift 2
passed=0 failed=0 skipped=0

run_one() {
    name=$1
    set -- "$folder/$name.pt2"
    if [ -e "$folder/$name.inputs.safetensors" ]; then
        [ -e "$folder/$name.expected.safetensors" ] || return 77
        set -- "$@" --inputs "$folder/$name.inputs.safetensors" --expect "$folder/$name.expected.safetensors"
        if [ -e "$folder/$name.step2.safetensors" ]; then
            set -- "$@" --inputs "$folder/$name.inputs.safetensors" --expect "$folder/$name.step2.safetensors"
        fi
    else
        k=0
        while [ -e "$folder/$name.inputs.$k.safetensors" ]; do
            set -- "$@" --inputs "$folder/$name.inputs.$k.safetensors" --expect "$folder/$name.expected.$k.safetensors"
            k=$((k + 1))
        done
        [ $k -gt 0 ] || return 77
    fi
    if [ -e "$folder/$name.state.safetensors" ]; then set -- "$@" --expect-state "$folder/$name.state.safetensors"; fi
    seed=$(sed -n "s/.*\"name\": \"$name\",.*\"seed\": \([0-9]*\).*/\1/p" "$folder"/index*.json 2>/dev/null | head -n 1)
    if [ -n "$seed" ]; then set -- "$@" --seed "$seed"; fi
    # shellcheck disable=SC2086
    "$nbx" run "$@" ${NBX_RUN_OPTIONS:-} || return 1
    if [ -e "$folder/$name.after.safetensors" ]; then
        # shellcheck disable=SC2086
        "$nbx" run "$folder/$name.pt2" --inputs "$folder/$name.inputs.safetensors" --expect "$folder/$name.after.safetensors" \
            ${NBX_RUN_OPTIONS:-} || return 1
    fi
}

if [ $# -eq 0 ]; then
    for file in "$folder"/*.pt2; do
        if [ -e "$file" ]; then set -- "$@" "$(basename "$file" .pt2)"; fi
    done
fi
for name in "$@"; do
    output=$(run_one "$name" 2>&1)
    case $? in
    0) passed=$((passed + 1)); printf 'pass  %s: %s\n' "$name" "$(printf '%s' "$output" | tail -n 1)" ;;
    77) skipped=$((skipped + 1)); printf 'skip  %s: no inputs or no expected results\n' "$name" ;;
    *) failed=$((failed + 1)); printf 'FAIL  %s: %s\n' "$name" "$output" ;;
    esac
done
printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
[ $failed -eq 0 ]
