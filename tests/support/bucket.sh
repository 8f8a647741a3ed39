# shellcheck shell=bash
# A real S3 server for tests: versitygw, which keeps its objects as files in a folder. Sourced.
#
#   bucket_build        build it, once; sets bucket_server
#   bucket_start DIR    start it with a bucket "runs", whose objects are files in DIR/disk/runs, and
#                       set AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
#   bucket_stop         end it
bucket_pid=
bucket_server=${SKYJOB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/skyjob}/bin/versitygw

bucket_build() {
    hack/cluster/build.sh s3
}

bucket_start() { # bucket_start DIR
    local dir=$1 try
    mkdir -p "$dir/disk" "$dir/meta"
    export AWS_ACCESS_KEY_ID=id AWS_SECRET_ACCESS_KEY=secret
    for try in 1 2 3; do # another process may take the port
        local port=$((20000 + RANDOM % 12000))
        ROOT_ACCESS_KEY=id ROOT_SECRET_KEY=secret "$bucket_server" --port "127.0.0.1:$port" \
            posix --sidecar "$dir/meta" "$dir/disk" >"$dir/server-$try.log" 2>&1 &
        bucket_pid=$!
        export AWS_ENDPOINT_URL=http://127.0.0.1:$port
        until_true 20 bucket_make && return
        bucket_stop
    done
    return 1
}

# Of no bytes: the SHA-256.
bucket_make() {
    curl -sf -m 5 -X PUT --aws-sigv4 aws:amz:us-east-1:s3 -u "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \
        -H 'x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855' \
        "$AWS_ENDPOINT_URL/runs"
}

bucket_stop() {
    [ -z "$bucket_pid" ] || { kill "$bucket_pid"; wait "$bucket_pid" || true; } 2>/dev/null
    bucket_pid=
}
