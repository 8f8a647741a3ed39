#!/bin/bash
# A short storm (storm.sh): its outcome counts, not its speed.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/support/tap.sh
. tests/support/tap.sh
export STORM_FAULTS=4 STORM_SEED=147

check 'a job that one fault after the other strikes ends with the weights of an undisturbed run' tests/integration/storm.sh
tap_end
