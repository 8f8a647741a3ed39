#!/bin/bash
# Removes what `make demo` made: the cluster, its images and, if it was started, the docker engine.
# The build cache stays, so that the next demo is quick; hack/cluster/down.sh --cache removes it.
set -euo pipefail
cd "$(dirname "$0")/.."
if docker info >/dev/null 2>&1; then
    docker image ls -q 'skyjob/*' | sort -u | xargs -r docker image rm --force >/dev/null
fi
hack/cluster/down.sh
