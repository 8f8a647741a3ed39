#!/bin/bash
# Packs the CLI for machines without SkyJob's libraries; hack/release.sh calls it where the programs were built.
#
#   SOURCE_DATE_EPOCH=... hack/pack-release.sh ARCHITECTURE
#
# Writes build/release-archives/kubectl-skyjob-linux-ARCHITECTURE.tar.gz with the CLI, the worker that its
# `run` and `tune` start, and in lib/ the libraries of both except for the C library, which is the machine's own.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=hack/contents.sh
. hack/contents.sh
[ $# -eq 1 ] || die "usage: $0 ARCHITECTURE"
out=build/release-archives
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
programs=(kubectl-skyjob skyjob-worker)

tree=$work/tree
target "$1"
archive=kubectl-skyjob-linux-$1
mkdir -p "$tree/lib" "$out"
find_libraries "${programs[@]/#/$bin/}"
for library in $(names_of_libraries); do
    package=$(package_of "${path_of[$library]}")
    [ "${package%:*}" != libc6 ] || continue
    install -m 755 "${path_of[$library]}" "$tree/lib/$library"
    add_packages "$tree" "$package"
done
for program in "${programs[@]}"; do
    install "$bin/$program" "$tree/"
    "$triplet-strip" "$tree/$program"
    # RPATH and not RUNPATH: it holds for what libraries need as well
    # shellcheck disable=SC2016 # for the loader
    patchelf --force-rpath --set-rpath '$ORIGIN/lib' "$tree/$program"
done
# licences only: no one looks for packages there
mv "$tree/usr/share/doc" "$tree/licenses"
cp -rL /usr/share/common-licenses "$tree/licenses/"
rm -rf "${tree:?}/usr" "${tree:?}/var"
cp LICENSE "$tree/"
sbom kubectl-skyjob ARCHIVE "${programs[@]/#/$tree/}" >"$out/$archive.spdx.json"
cp "$out/$archive.spdx.json" "$tree/sbom.spdx.json"
"${same_tar[@]}" -C "$tree" -c . | gzip -9n >"$out/$archive.tar.gz"
