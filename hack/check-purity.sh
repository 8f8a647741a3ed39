#!/bin/bash
# Checks that a library only calls what a pure function may call: no clock, no files, no sockets, no
# log, no randomness. Memory of its own only where the library is named with --memory.
#
#   hack/check-purity.sh [--memory] LIBRARY [LIBRARY-IT-MAY-CALL...]
#
# What the second and later libraries define is allowed, except for base's clock_now and clock_wall,
# log_*, file_*, hmac_key_*, thread_*, arena_init, process_read; they are checked by a call of their
# own.
set -euo pipefail
memory=
if [ "${1:-}" = --memory ]; then memory='malloc calloc realloc free qsort qsort_r bsearch'; shift; fi
library=$1; shift
allowed=$(mktemp) used=$(mktemp)
trap 'rm -f "$allowed" "$used"' EXIT

{
    for l in "$library" "$@"; do nm --defined-only "$l" 2>/dev/null | awk 'NF == 3 { print $3 }'; done |
        grep -vE '^(clock_now_|clock_wall_|log_|file_|hmac_key_|thread_|arena_init|process_read)'
    # libc and libm: functions of their arguments; __*_chk are their checked forms.
    printf '%s\n' memcpy memmove memset memcmp memchr strlen strnlen strcmp strncmp strchr strrchr \
        strstr strspn strcspn strpbrk snprintf vsnprintf strtol strtoll strtod abort __assert_fail \
        fabs fmax fmin round floor ceil ceill sqrt exp log pow powl ldexp isfinite strtold __popcountdi2 \
        __ctype_b_loc \
        __memcpy_chk __memmove_chk __memset_chk __snprintf_chk __vsnprintf_chk __stack_chk_fail \
        __isoc23_strtol _GLOBAL_OFFSET_TABLE_
    # shellcheck disable=SC2086 # a list
    printf '%s\n' $memory
} | sort -u >"$allowed"
nm --undefined-only "$library" | awk 'NF == 2 { print $2 }' | sort -u >"$used"
if impure=$(comm -23 "$used" "$allowed" | grep .); then
    echo "$library calls what a pure library may not: ${impure//$'\n'/ }" >&2
    exit 1
fi
