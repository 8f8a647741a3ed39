#!/bin/bash
# Builds the CLI's archives for Linux, their checksums and a krew manifest: build/debian12/release-archives.
#
#   hack/release.sh [ARCHITECTURE...]     of amd64 and arm64; both when none is named
#   RELEASE_URL=...                       where the archives will be, for the krew manifest
#
# The programs are compiled in a Debian 12, whose C library (2.36) is the oldest that they then run with.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=hack/ship.sh
. hack/ship.sh
[ $# -gt 0 ] || set -- amd64 arm64
: "${RELEASE_URL:=https://skyjob.dev/releases/v$(cat VERSION)}"
out=build/debian12/release-archives

krew_platform() { # krew_platform ARCHITECTURE
    local name=kubectl-skyjob-linux-$1.tar.gz
    printf '  - selector: {matchLabels: {os: linux, arch: %s}}\n    uri: %s\n    sha256: %s\n    bin: kubectl-skyjob\n' \
        "$1" "$RELEASE_URL/$name" "$(sha256sum "$out/$name" | cut -d ' ' -f 1)"
}

build_programs 12 "$@"
for architecture; do run 10 "Archive for $architecture" inside 12 "$architecture" hack/pack-release.sh "$architecture"; done
{
    sed "s/@VERSION@/v$(cat VERSION)/" hack/krew.yaml
    for architecture; do krew_platform "$architecture"; done
} >"$out/skyjob.yaml"
(cd "$out" && sha256sum ./*.tar.gz skyjob.yaml | sed 's|\./||' >SHA256SUMS)
ls -l "$out"
