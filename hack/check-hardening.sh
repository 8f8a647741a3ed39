#!/bin/bash
# Checks that programs have what limits the damage of a mistake with memory.
#
#   hack/check-hardening.sh PROGRAM...      also of another architecture
#
# The flags are HARDEN and LDFLAGS in the Makefile. A note in the program that makes a loader enforce landing
# pads (endbr64, BTI) needs them in the start files of the C library as well; so here the code itself is
# looked at.
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: $0 PROGRAM..." >&2; exit 1; }
bad=0
LANDING_PADS_MIN=50 # the start files alone have a handful

complain() { # complain WHAT: about $program
    printf '%s: %s\n' "$program" "$1" >&2
    bad=1
}

landing_pads() { # landing_pads PATTERN: how many are in the code of $program
    local offset size
    read -r offset size <<<"$(readelf -SW "$program" | awk '{ sub(/^ *\[ *[0-9]+\]/, "") } $1 == ".text" { print $4, $5 }')"
    head -c $((16#$offset + 16#$size)) "$program" | tail -c $((16#$size)) | LC_ALL=C grep -aoP "$1" | wc -l
}

check() { # of $program
    local header segments dynamic symbols pads
    header=$(readelf -hW "$program") segments=$(readelf -lW "$program")
    dynamic=$(readelf -dW "$program") symbols=$(readelf -W --dyn-syms "$program")
    [[ $header =~ Type:\ +DYN && $dynamic =~ FLAGS_1[^$'\n']*PIE ]] || complain 'is not position-independent (-fPIE, -pie)'
    [[ $segments == *GNU_RELRO* && $dynamic =~ FLAGS[^$'\n']*NOW ]] ||
        complain 'its table of functions stays writable (-z relro -z now)'
    [[ $segments =~ GNU_STACK[^$'\n']*\ RW\  ]] || complain 'its stack is executable (-z noexecstack)'
    [[ ! $segments =~ LOAD[^$'\n']*\ RWE ]] || complain 'has memory that is both writable and executable'
    [[ $dynamic != *TEXTREL* ]] || complain 'its code is changed when it is loaded (-fPIE)'
    [[ $symbols == *__stack_chk_fail* ]] || complain 'has no canaries (-fstack-protector-strong)'
    [[ $symbols =~ __[a-z]+_chk ]] || complain 'has no checked copies (_FORTIFY_SOURCE)'
    case $header in
    *X86-64*) pads=$(landing_pads '\xf3\x0f\x1e\xfa') ;;                       # endbr64
    *AArch64*) pads=$(landing_pads '(\x3f\x23\x03\xd5|\x5f\x24\x03\xd5)') ;; # paciasp, bti c
    *) return ;;
    esac
    [ "$pads" -ge $LANDING_PADS_MIN ] ||
        complain "has no landing pads for calls through pointers (-fcf-protection, -mbranch-protection): $pads"
}

for program; do check; done
exit "$bad"
