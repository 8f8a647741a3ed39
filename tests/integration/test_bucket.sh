#!/bin/bash
# The S3 client and checkpoints in a bucket, on a real S3 server (tests/integration/test_bucket.c).
# The server is built when it is missing. Arguments: a test's name.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/support/bucket.sh
. tests/support/bucket.sh
bucket_build
CMOCKA_MESSAGE_OUTPUT=TAP exec "${OUT:-build/release}/tests/integration/test_bucket" "$bucket_server" "$@"
