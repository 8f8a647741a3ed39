#!/bin/bash
# What is shipped: the CLI's archives and the krew manifest. Needs no cluster. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=hack/cluster/lib.sh
. hack/cluster/lib.sh
# shellcheck source=tests/support/tap.sh
. tests/support/tap.sh
set +e
work=$(mktemp -d)
# shellcheck disable=SC2016 # for later
at_exit 'rm -rf "$work" build/debian12/test'
own=$(dpkg --print-architecture)
out=build/debian12/release-archives

each() { # each COMMAND...: with every architecture and the folder of its archive
    local architecture
    for architecture in amd64 arm64; do "$@" $architecture "$work/$architecture" || { echo $architecture; return 1; }; done
}

unpack() { mkdir "$2" && tar -C "$2" -xzf $out/kubectl-skyjob-linux-"$1".tar.gz; }
built() { hack/release.sh && each unpack; }
check 'the archives of the CLI are built, for amd64 and arm64' built

hardened() { hack/check-hardening.sh "$2"/kubectl-skyjob "$2"/skyjob-worker; }
check 'their programs are hardened' each hardened

# Everything but the C library comes from lib/.
is_complete() {
    local needed
    needed=$(find "$2" -type f \( -name '*.so*' -o -name '*sky*job*' \) -perm /111 -exec readelf -dW {} + | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p' | sort -u |
        while read -r name; do [ -e "$2/lib/$name" ] || echo "$name"; done |
        grep -vE '^(lib(c|m|dl|pthread|rt|resolv)\.so\.[0-9]|ld-linux.*)$')
    echo "missing: $needed"
    [ -z "$needed" ] && [ -s "$2/LICENSE" ] && [ "$(find "$2/licenses" -name copyright -size +0 | wc -l)" -gt 10 ] &&
        jq -e '.spdxVersion == "SPDX-2.3" and (.packages | length) > 10' "$2/sbom.spdx.json"
}
check 'they contain all libraries but the C library, their licences and an SBOM' each is_complete

# On the oldest system that they are for; their own libraries come before those of the system.
starts() {
    local system=12 emulator=()
    [ "$1" = "$own" ] || system=12-$1 emulator=(qemu-aarch64-static)
    rm -rf build/debian12/test && cp -r "$2" build/debian12/test &&
        hack/debian.sh "$system" "${emulator[@]}" build/test/kubectl-skyjob version | has "$(cat VERSION)"
}
check 'kubectl-skyjob starts, on both architectures' each starts
trains() {
    sed -e 's/^    steps:.*/    steps: 5/' manifests/samples/mnli.yaml >"$work/job.yaml" &&
        "$work/$own/kubectl-skyjob" run -f "$work/job.yaml" --workers cpu=0.5,cpu=0.5 --data build/debian12/sample/mnli --json | jq -e .
}
check 'kubectl-skyjob trains with the worker beside it' trains

has_sums() { (cd $out && sha256sum -c SHA256SUMS && [ "$(wc -l <SHA256SUMS)" -eq 3 ]); }
check 'the checksums are those of the archives and of the manifest' has_sums
is_manifest() {
    local architecture
    grep -x "  version: v$(cat VERSION)" $out/skyjob.yaml || return
    for architecture in amd64 arm64; do
        grep -A 3 "os: linux, arch: $architecture" $out/skyjob.yaml |
            has "sha256: $(sha256sum $out/kubectl-skyjob-linux-$architecture.tar.gz | cut -d ' ' -f 1)" || return
    done
}
check 'the krew manifest names both archives by their checksums' is_manifest
tap_end
