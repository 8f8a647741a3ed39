# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables of who sources this
# Sourced by hack/pack-image.sh and hack/pack-release.sh: which libraries programs need, whose packages and
# licences these are, and a list of it all. Runs where the programs were built.
#
#   architecture      amd64 or arm64; target() sets triplet and bin for it
#   work              a folder for files that are not shipped
set -euo pipefail
shopt -s inherit_errexit
HOME_PAGE=https://skyjob.dev
version=$(cat VERSION)
created=$(date -u -d "@${SOURCE_DATE_EPOCH:?}" +%Y-%m-%dT%H:%M:%SZ)
# shellcheck disable=SC2054 # a comma of tar's
# In order, and without times and owners of their own: equal contents are equal bytes.
same_tar=(tar --sort=name --format=gnu --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX)

die() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

digest() { sha256sum "$1" | cut -d ' ' -f 1; }

target() { # target ARCHITECTURE: sets architecture, triplet, and bin to where its programs are
    architecture=$1
    case $1 in
    amd64) triplet=x86_64-linux-gnu ;;
    arm64) triplet=aarch64-linux-gnu ;;
    *) die "an architecture is amd64 or arm64, not $1" ;;
    esac
    bin=build/release/bin
    [ "$1" = "$(dpkg --print-architecture)" ] || bin=build/$1/bin
}

declare -A path_of # of each library's name, in $triplet's folder

find_libraries() { # find_libraries FILE...: adds what they need, and what that needs
    local file library
    for file; do
        while read -r library; do
            [ -z "${path_of[$library]:-}" ] || continue
            path_of[$library]=$(readlink -f "/usr/lib/$triplet/$library")
            [ -f "${path_of[$library]}" ] || die "$file needs $library, which is not in /usr/lib/$triplet"
            find_libraries "${path_of[$library]}"
        done < <(readelf -dW "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p')
    done
}

# Some packages still name their files without /usr.
package_of() { { dpkg -S "$1" 2>/dev/null || dpkg -S "${1#/usr}"; } | sed -n '1s/: .*//p'; }

# Scanners look for packages in status.d, where there is no dpkg.
add_packages() { # add_packages TREE PACKAGE...: their licences
    local tree=$1 package short
    shift
    for package; do
        short=${package%:*}
        [ ! -e "$tree/usr/share/doc/$short" ] || continue
        mkdir -p "$tree/usr/share/doc/$short" "$tree/var/lib/dpkg/status.d"
        cp -L "/usr/share/doc/$short/copyright" "$tree/usr/share/doc/$short/"
        dpkg-query -s "$package" >"$tree/var/lib/dpkg/status.d/$short"
        echo "$package" >>"$work/packages"
    done
}

names_of_libraries() { printf '%s\n' "${!path_of[@]}" | sort; }

# --- the list of it, as SPDX 2.3 ------------------------------------------------------------------
sbom() { # sbom NAME PURPOSE PROGRAM...: of $architecture
    local whole=$1 purpose=$2 program sum
    shift 2
    # shellcheck disable=SC2016 # for dpkg-query
    {
        for program; do printf 'skyjob\t%s\t%s\n' "${program##*/}" "$(sha256sum "$program" | cut -d ' ' -f 1)"; done
        sort -u "$work/packages" | xargs dpkg-query -W -f \
            'debian\t${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\t${Homepage}\n'
    } >"$work/rows"
    sum=$(digest "$work/rows")
    jq -Rn --arg image "$whole" --arg purpose "$purpose" --arg version "$version" --arg sum "${sum:0:16}" \
        --arg debian "$(sed -n 's/^VERSION_ID="\(.*\)"/\1/p' /etc/os-release)" --arg created "$created" --arg architecture "$architecture" --arg home "$HOME_PAGE" '
        def id: "SPDXRef-" + gsub("[^A-Za-z0-9.-]"; "-");
        def component($id): {SPDXID: $id, downloadLocation: "NOASSERTION", filesAnalyzed: false,
            licenseConcluded: "NOASSERTION", copyrightText: "NOASSERTION"};
        def own($name): component($name | id) + {name: $name, versionInfo: $version, licenseDeclared: "Apache-2.0",
            supplier: "Organization: SkyJob", homepage: $home};
        [inputs / "\t"] as $rows
        | [$rows[] | if .[0] == "skyjob" then
                own(.[1]) + {checksums: [{algorithm: "SHA256", checksumValue: .[2]}]}
            else
                component("Debian-" + .[1] | id) + {name: .[1], versionInfo: .[2],
                    supplier: "Organization: Debian", sourceInfo: "built from \(.[4]) \(.[5])",
                    licenseDeclared: "NOASSERTION", licenseComments: "/usr/share/doc/\(.[1])/copyright",
                    externalRefs: [{referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator:
                        "pkg:deb/debian/\(.[1] | @uri)@\(.[2] | @uri)?arch=\(.[3])&distro=debian-\($debian)"}]}
                + if .[6] != "" then {homepage: .[6]} else {} end
            end] as $parts
        | {spdxVersion: "SPDX-2.3", dataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT",
           name: "\($image)-\($version)-\($architecture)",
           documentNamespace: "\($home)/spdx/\($image)-\($version)-\($architecture)-\($sum)",
           creationInfo: {created: $created, creators: ["Organization: SkyJob", "Tool: hack/contents.sh"]},
           packages: ([own($image) + {SPDXID: "SPDXRef-Whole", primaryPackagePurpose: $purpose}] + $parts),
           relationships: ([{spdxElementId: "SPDXRef-DOCUMENT", relationshipType: "DESCRIBES",
                relatedSpdxElement: "SPDXRef-Whole"}]
                + [$parts[] | {spdxElementId: "SPDXRef-Whole", relationshipType: "CONTAINS", relatedSpdxElement: .SPDXID}])}' "$work/rows"
}
