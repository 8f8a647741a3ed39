# shellcheck shell=bash
# A real S3 server for tests: versitygw, which keeps its objects as files in a folder. Sourced.
#
#   bucket_build        build it, once; sets bucket_server
#   bucket_start DIR [tls]   start it with a bucket "runs", whose objects are files in DIR/disk/runs, and
#                       set AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; with a certificate
#                       DIR/cert.pem that nobody trusts
#   bucket_stop         end it
bucket_pid=
bucket_trusts=() # for curl
bucket_server=${SKYJOB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/skyjob}/bin/versitygw

bucket_build() {
    hack/cluster/build.sh s3
}

bucket_start() { # bucket_start DIR [tls]
    local dir=$1 try scheme=http options=()
    mkdir -p "$dir/disk" "$dir/meta"
    bucket_trusts=()
    if [ "${2:-}" = tls ]; then
        scheme=https options=(--cert "$dir/cert.pem" --key "$dir/key.pem") bucket_trusts=(--cacert "$dir/cert.pem")
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=bucket \
            -addext subjectAltName=IP:127.0.0.1 -keyout "$dir/key.pem" -out "$dir/cert.pem" 2>"$dir/openssl.log" || return
    fi
    export AWS_ACCESS_KEY_ID=id AWS_SECRET_ACCESS_KEY=secret
    for try in 1 2 3; do # another process may take the port
        local port=$((20000 + RANDOM % 12000))
        ROOT_ACCESS_KEY=id ROOT_SECRET_KEY=secret "$bucket_server" --port "127.0.0.1:$port" "${options[@]}" \
            posix --sidecar "$dir/meta" "$dir/disk" >"$dir/server-$try.log" 2>&1 &
        bucket_pid=$!
        export AWS_ENDPOINT_URL=$scheme://127.0.0.1:$port
        until_true 20 bucket_make && return
        bucket_stop
    done
    return 1
}

# Of no bytes: the SHA-256.
bucket_make() {
    curl -sf -m 5 "${bucket_trusts[@]}" -X PUT --aws-sigv4 aws:amz:us-east-1:s3 -u "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \
        -H 'x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855' \
        "$AWS_ENDPOINT_URL/runs"
}

bucket_stop() {
    [ -z "$bucket_pid" ] || { kill "$bucket_pid"; wait "$bucket_pid" || true; } 2>/dev/null
    bucket_pid=
}
