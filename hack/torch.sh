#!/bin/bash
# PyTorch for the row `ddp` of make bench-sync, kept in the cache: prints the Python that has it.
#
# The index has Linux wheels for CUDA only, and those do not load without CUDA's libraries: 5 GB, about two minutes.
# Nothing else needs Python.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=hack/cluster/lib.sh
. hack/cluster/lib.sh
: "${TORCH_VERSION:=2.15.0}"
torch=$CACHE/torch-$TORCH_VERSION
install() { python3 -m venv "$torch" && "$torch/bin/pip" install --quiet "torch==$TORCH_VERSION"; }
only_one torch
if [ ! -e "$torch/complete" ]; then
    rm -rf "$torch"
    run 120 "Installing PyTorch $TORCH_VERSION" install
    touch "$torch/complete"
fi
echo "$torch/bin/python"
