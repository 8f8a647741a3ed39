#!/bin/bash
# What is shipped: the images of both architectures, as files. Needs no cluster and no docker engine. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=hack/cluster/lib.sh
. hack/cluster/lib.sh
# shellcheck source=tests/support/tap.sh
. tests/support/tap.sh
set +e
work=$(mktemp -d)
# shellcheck disable=SC2016 # for later
at_exit 'as_root rm -rf "$work" build/debian13/test'
own=$(dpkg --print-architecture)
images=build/debian13/images
# Fixed, so that a second build has the same.
export SOURCE_DATE_EPOCH=1700000000 IMAGE_REVISION=0123456789abcdef0123456789abcdef01234567

blob_of() { tar -xOf "$1" "blobs/sha256/${2#sha256:}"; } # blob_of TAR DIGEST
index_of() { blob_of "$1" "$(tar -xOf "$1" index.json | jq -r '.manifests[0].digest')"; }
manifest_of() { # manifest_of TAR ARCHITECTURE
    blob_of "$1" "$(index_of "$1" | jq -r --arg a "$2" '.manifests[] | select(.platform.architecture == $a).digest')"
}
config_of() { blob_of "$1" "$(manifest_of "$1" "$2" | jq -r .config.digest)"; }
layers_of() { manifest_of "$1" "$2" | jq -r '.layers[].digest'; }

# each COMMAND...: with every image and architecture, and the folder of its files
each() {
    local name architecture
    for name in operator worker; do
        for architecture in amd64 arm64; do
            "$@" "$name" "$architecture" "build/debian13/test/$name-$architecture" || { echo "$name of $architecture"; return 1; }
        done
    done
}

unpack() {
    local layer
    mkdir -p "$3"
    for layer in $(layers_of "$images/skyjob-$1.tar" "$2"); do blob_of "$images/skyjob-$1.tar" "$layer" | tar -C "$3" -xz || return; done
}
built() { hack/images.sh && rm -rf build/debian13/test && each unpack; }
check 'the images are built, for amd64 and arm64' built

fits() {
    local most=15 size
    [ "$1" = operator ] || most=40
    size=$(manifest_of "$images/skyjob-$1.tar" "$2" | jq '[.layers[].size, .config.size] | add')
    echo "$1 $2: $size"
    [ "$size" -le $((most * 1000000)) ]
}
check 'the operator takes at most 15 MB and the worker at most 40 MB, compressed' each fits

is_bare() {
    [ -z "$(find "$3" -name '*sh' -type f -perm /111)" ] &&
        [ "$(find "$3/usr" -path '*/bin/*' -type f -printf '%f\n' | sort | xargs)" = \
            "$([ "$1" = operator ] && echo kubectl-skyjob skyjob-operator || echo skyjob-import skyjob-worker)" ]
}
check 'there is no shell, and no program but our own' each is_bare

# A chroot has nothing else to fall back on.
starts() {
    local program text emulator=()
    if [ "$2" != "$own" ]; then
        # shellcheck disable=SC2016 # for the shell in there
        hack/debian.sh 13-arm64 sh -c 'cp "$(command -v qemu-aarch64-static || command -v qemu-aarch64)" "$1"' sh "${3/debian13\//}/emulator" || return
        emulator=(/emulator)
    fi
    for program in "$3"/usr/local/bin/*; do
        text=$(as_root chroot "$3" "${emulator[@]}" "/usr/local/bin/${program##*/}" --help 2>&1) # some end with 2 then
        [[ $'\n'$text =~ $'\n'("usage: ${program##*/}"|"${program##*/} $(cat VERSION)"|"${program##*/}: train ") ]] || { echo "$text"; return 1; }
    done
    rm -f "$3/emulator"
}
check 'every program finds its libraries in its image' each starts

hardened() { hack/check-hardening.sh "$3"/usr/local/bin/*; }
check 'every program is hardened' each hardened

is_labelled() {
    config_of "$images/skyjob-$1.tar" "$2" | jq -e --arg version "$(cat VERSION)" --arg name "$1" --arg architecture "$2" '
        .architecture == $architecture and .os == "linux" and .created == "2023-11-14T22:13:20Z"
        and .config.User == "65532:65532" and .config.Entrypoint == ["/usr/local/bin/skyjob-" + $name]
        and (.config.Labels | with_entries(.key |= ltrimstr("org.opencontainers.image."))
            | .title == "SkyJob " + $name and .version == $version and .revision == env.IMAGE_REVISION
                and .created == "2023-11-14T22:13:20Z" and .licenses == "Apache-2.0"
                and (.source | startswith("https://")) and (.description | length > 0))'
}
check 'labels tell what an image is, of which commit and when' each is_labelled

is_licensed() {
    local package
    cmp "$3/usr/share/doc/skyjob/LICENSE" LICENSE || return
    for package in $(jq -r '.packages[] | select(.supplier == "Organization: Debian").name' "$3/usr/share/doc/skyjob/sbom.spdx.json"); do
        if [ ! -s "$3/usr/share/doc/$package/copyright" ] || ! grep -q "^Package: $package$" "$3/var/lib/dpkg/status.d/$package"; then
            echo "$package"
            return 1
        fi
    done
}
check 'the licence of every package is in the image' each is_licensed

lists_everything() {
    local sbom=$3/usr/share/doc/skyjob/sbom.spdx.json program sum
    cmp "$sbom" "$images/skyjob-$1-$2.spdx.json" || return
    for program in "$3"/usr/local/bin/*; do
        sum=$(sha256sum "$program" | cut -d ' ' -f 1)
        jq -e --arg name "${program##*/}" --arg sum "$sum" 'any(.packages[]; .name == $name and .checksums[0].checksumValue == $sum)' "$sbom" || return
    done
    find "$3" -name '*.so*' -type f -printf '%f\n' | sort -u >"$work/libraries"
    # shellcheck disable=SC2016 # for the shell in there
    hack/debian.sh "13$([ "$2" = "$own" ] || echo "-$2")" sh -c 'while read -r name; do
            path=$(readlink -f "/usr/lib/$1/$name")
            { dpkg -S "$path" 2>/dev/null || dpkg -S "${path#/usr}"; } | sed -n "1s/:.*//p"
        done' sh "$([ "$2" = amd64 ] && echo x86_64-linux-gnu || echo aarch64-linux-gnu)" <"$work/libraries" | sort -u >"$work/owners"
    jq -r '.packages[].name' "$sbom" | sort >"$work/listed"
    [ "$(wc -l <"$work/libraries")" -gt 10 ] && [ -z "$(comm -23 "$work/owners" "$work/listed")" ] &&
        jq -e '.spdxVersion == "SPDX-2.3" and .SPDXID == "SPDXRef-DOCUMENT" and .dataLicense == "CC0-1.0"
            and (([.packages[].SPDXID] | unique | length) == (.packages | length))
            and ([.relationships[] | select(.relationshipType == "CONTAINS")] | length) == (.packages | length) - 1
            and all(.packages[] | select(.supplier == "Organization: Debian").externalRefs[0].referenceLocator;
                test("^pkg:deb/debian/[^@]+@[^?]+[?]arch=(all|amd64|arm64)&distro=debian-13$"))' "$sbom"
}
check 'the SBOM lists every program and the package of every library' each lists_everything

# Elsewhere, from nothing, by someone with another umask.
again() (
    mkdir "$work/tree" && git ls-files -z | tar --null -T - -c | tar -C "$work/tree" -x && cd "$work/tree" && umask 077 && hack/images.sh "$own"
)
same() { cmp <(manifest_of "$images/skyjob-$1.tar" "$own") <(manifest_of "$work/tree/$images/skyjob-$1.tar" "$own"); }
reproduced() { again && same operator && same worker; }
check 'a second build in another folder gives the same images, to the bit' reproduced

edited() (
    cd "$work/tree" && sed -i '0,/"skyjob-worker/s//"skyjob-worker (edited)/' worker/main.c && hack/images.sh "$own" &&
        layers_of $images/skyjob-worker.tar "$own" >"$work/edited"
)
changes_one() {
    layers_of $images/skyjob-worker.tar "$own" >"$work/original"
    edited && same operator && [ "$(wc -l <"$work/original")" -ge 4 ] &&
        cmp <(head -n -1 "$work/original") <(head -n -1 "$work/edited") && ! cmp -s "$work/original" "$work/edited"
}
check 'an edit of the worker changes its last layer and nothing else' changes_one
comment() { printf '# %s\n' "$*"; }
comment "$(each fits | xargs)"
tap_end
