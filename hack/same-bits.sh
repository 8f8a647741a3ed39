#!/bin/bash
# Does training give the same weights here and in Debian 13, to the bit? Called by make check-debian13, which builds
# for both. The kernels of the matrix products are named, so that each library does not choose others.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/support/tap.sh
. tests/support/tap.sh
work=build/debian13/bits
rm -rf $work
mkdir -p $work
sed 's/^    steps:.*/    steps: 40/' manifests/samples/mnli.yaml >$work/job.yaml
train=(env OPENBLAS_CORETYPE=Haswell build/release/bin/kubectl-skyjob run --workers 'cpu=1,cpu=1' --strategy Even)
"${train[@]}" -f $work/job.yaml --output $work/here >/dev/null
hack/debian.sh 13 "${train[@]}" -f build/bits/job.yaml --output build/bits/there >/dev/null
here=$(weights_of $work/here) there=$(weights_of $work/there)
rm -f "$tap_log"
if [ "$here" != "$there" ]; then
    echo "The same job has other weights in Debian 13: $work/here and $work/there" >&2
    exit 1
fi
echo 'The same job has the same weights in Debian 13, to the bit.'
