#!/bin/bash
# Packs programs and the libraries that they need into an image; hack/images.sh calls it in a Debian 13
# root, when the programs are built.
#
#   SOURCE_DATE_EPOCH=... IMAGE_REVISION=... hack/pack-image.sh operator|worker ARCHITECTURE [FOLDER]
#
# Writes the blobs of an OCI layout to build/images/skyjob-NAME, with the descriptor of the image's manifest as
# ARCHITECTURE.json, and beside it what the image contains, skyjob-NAME-ARCHITECTURE.spdx.json. With a FOLDER, as
# Dockerfile has it: only the files of the image, there.
#
# There is no base: an image has programs, shared libraries with their licences, and the certificates of public
# CAs; no shell. What changes least comes first: libraries of all programs, those of the worker, sample data,
# programs. Files have no times of their own and are in order, so equal contents are equal layers, to the bit.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=hack/contents.sh
. hack/contents.sh
out=build/images
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

name=${1:-}
case $name in
operator) programs=(skyjob-operator kubectl-skyjob) title='SkyJob operator' description='Plans and runs SkyJobs' ;;
worker) programs=(skyjob-worker skyjob-import) title='SkyJob worker' description='Trains a stage of a SkyJob' ;;
*) die "usage: $0 operator|worker ARCHITECTURE [FOLDER]" ;;
esac
[ $# -eq 2 ] || [ $# -eq 3 ] || die "usage: $0 operator|worker ARCHITECTURE [FOLDER]"
folder=${3:-}

# --- what an image contains -----------------------------------------------------------------------
add_libraries() { # add_libraries TREE LIBRARY...
    local tree=$1 library target package
    shift
    for library; do
        target=/usr/lib/$triplet/$library
        [[ $library != ld-linux* ]] || target=$loader
        install -D -m 755 "${path_of[$library]}" "$tree$target"
        package=$(package_of "${path_of[$library]}")
        add_packages "$tree" "$package"
    done
}

base_tree() { # base_tree TREE: for all programs. The operator's libraries and kubectl-skyjob's are what they share.
    local libraries
    path_of=()
    find_libraries "$bin/skyjob-operator" "$bin/kubectl-skyjob"
    mkdir -p "$1/etc/ssl/certs" "$1/usr/share" "$1/usr/lib"
    cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
    cp -L /etc/os-release "$1/usr/lib/"
    ln -s ../usr/lib/os-release "$1/etc/os-release"
    cp -rL /usr/share/common-licenses "$1/usr/share/" # licences of packages refer to them
    echo 'hosts: files dns' >"$1/etc/nsswitch.conf"
    add_packages "$1" ca-certificates base-files
    names_of_libraries >"$work/base"
    mapfile -t libraries <"$work/base"
    add_libraries "$1" "${libraries[@]}"
}

worker_tree() { # worker_tree TREE: what only the worker needs
    local libraries
    find_libraries "$bin/skyjob-worker" "$bin/skyjob-import"
    mapfile -t libraries < <(names_of_libraries | comm -13 "$work/base" -)
    add_libraries "$1" "${libraries[@]}"
}

sample_tree() {
    mkdir -p "$1/usr/share/skyjob"
    cp -r build/sample/mnli "$1/usr/share/skyjob/"
}

program_tree() {
    local program
    for program in "${programs[@]}"; do
        install -D "$bin/$program" "$1/usr/local/bin/$program"
        "$triplet-strip" "$1/usr/local/bin/$program"
    done
    install -D -m 644 LICENSE "$1/usr/share/doc/skyjob/LICENSE"
    sbom "skyjob-$name" CONTAINER "$1"/usr/local/bin/* >"$out/skyjob-$name-$architecture.spdx.json"
    cp "$out/skyjob-$name-$architecture.spdx.json" "$1/usr/share/doc/skyjob/sbom.spdx.json"
}

# --- layers and documents ---------------------------------------------------------------------------
# Prints the descriptor of a file that becomes a blob.
blob() { # blob MEDIA-TYPE FILE
    local sum
    sum=$(digest "$2")
    ln -f "$2" "$layout/blobs/sha256/$sum" 2>/dev/null || cp "$2" "$layout/blobs/sha256/$sum"
    jq -cn --arg type "$1" --arg digest "sha256:$sum" --argjson size "$(stat -c %s "$2")" \
        '{mediaType: $type, digest: $digest, size: $size}'
}

# What is compressed once stays, by the digest of its contents: an edit of a program compresses only that.
add_layer() { # add_layer TREE
    local sum
    (cd "$1" && "${same_tar[@]}" -c -- *) >"$work/layer.tar"
    sum=$(digest "$work/layer.tar")
    if [ ! -e "$out/layers/$sum" ]; then
        gzip -9n <"$work/layer.tar" >"$out/layers/$sum.new"
        mv "$out/layers/$sum.new" "$out/layers/$sum"
    fi
    touch "$out/layers/$sum"
    blob application/vnd.oci.image.layer.v1.tar+gzip "$out/layers/$sum" >>"$work/layers"
    echo "sha256:$sum" >>"$work/diffs"
}

labels() {
    jq -cn --arg title "$title" --arg description "$description" --arg version "$version" --arg revision "$IMAGE_REVISION" \
        --arg created "$created" --arg home "$HOME_PAGE" \
        '{title: $title, description: $description, version: $version, revision: $revision, created: $created,
          source: $home, url: $home, vendor: "SkyJob", licenses: "Apache-2.0"}
         | with_entries(.key |= "org.opencontainers.image." + .)'
}

target "$2"
layout=$out/skyjob-$name
mkdir -p "$layout/blobs/sha256" "$out/layers"
find "$out/layers" -type f -mtime +7 -delete
loader=$(readelf -lW "$bin/skyjob-operator" | sed -n 's/.*interpreter: \(.*\)\]$/\1/p')
for tree in base $([ "$name" = operator ] || echo worker sample) program; do
    rm -rf "$work/tree"
    mkdir "$work/tree"
    "${tree}_tree" "$work/tree"
    if [ "$folder" ]; then
        mkdir -p "$folder"
        cp -a "$work/tree/." "$folder/"
    else
        add_layer "$work/tree"
    fi
done
[ -z "$folder" ] || exit 0
jq -cRn --arg architecture "$architecture" --arg created "$created" --arg program "${programs[0]}" --argjson labels "$(labels)" '
    {created: $created, architecture: $architecture, os: "linux",
     config: {User: "65532:65532", Env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
              Entrypoint: ["/usr/local/bin/\($program)"], WorkingDir: "/", Labels: $labels},
     rootfs: {type: "layers", diff_ids: [inputs]}}
    | if $architecture == "arm64" then .variant = "v8" else . end
    | .history = [.rootfs.diff_ids[] | {created: $created, created_by: "hack/pack-image.sh"}]' <"$work/diffs" >"$work/config"
blob application/vnd.oci.image.config.v1+json "$work/config" >"$work/config-descriptor"
jq -cs --slurpfile config "$work/config-descriptor" --argjson labels "$(labels)" \
    '{schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", config: $config[0], layers: ., annotations: $labels}' \
    "$work/layers" >"$work/manifest"
blob application/vnd.oci.image.manifest.v1+json "$work/manifest" |
    jq -c --slurpfile config "$work/config" '.platform = ($config[0] | {architecture, os, variant} | del(.[] | nulls))' >"$layout/$architecture.json"
