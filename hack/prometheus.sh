#!/bin/bash
# Prints the folder with prometheus and promtool, as Debian and Ubuntu package them. They are unpacked once into
# the cache and not installed: the package would start a server.
set -euo pipefail
# shellcheck source=hack/cluster/lib.sh
. "$(dirname "$0")/cluster/lib.sh"
to=$CACHE/prometheus

fetch() {
    local work
    work=$(mktemp -d)
    cd "$work"
    apt-get download -q prometheus
    dpkg-deb -x prometheus_*.deb "$to.new"
    rm -rf "$work" "$to"
    mv "$to.new" "$to"
}

[ -x "$to/usr/bin/prometheus" ] || run 10 'Fetch Prometheus' fetch
echo "$to/usr/bin"
