# The rows of tests/bench/sync.sh as a table: jq -rs -f tests/bench/sync.jq FILE
# Time to accuracy is until the first evaluation that is no more than half a point below what BSP with equal shares
# has in the end.
def mean: add / length;
def deviation: mean as $m | if length > 1 then (map(. - $m | . * .) | add / (length - 1) | sqrt) else 0 end;
def digits($n): . * pow(10; $n) | round / pow(10; $n) | tostring;
def reached($target): map(.evaluations | map(select(.[2] >= $target)) | .[0][1] // empty);
"| optimizer | protocol | runs | seconds | speed | accuracy % | loss | seconds to accuracy |",
"|---|---|--:|--:|--:|--:|--:|--:|",
(group_by(.optimizer)[] |
    (map(select(.protocol == "even")) | if length > 0 then {seconds: (map(.seconds) | mean), accuracy: (map(.accuracy) | mean)} else null end) as $even |
    group_by(.protocol)[] |
    (if $even then reached($even.accuracy - 0.005) else [] end) as $reached |
    "| \(.[0].optimizer) | \(.[0].protocol) | \(length) | \(map(.seconds) | mean | digits(1)) | " +
    "\(if $even then ($even.seconds / (map(.seconds) | mean) | digits(2)) + "x" else "" end) | " +
    "\(map(.accuracy * 100) | "\(mean | digits(1)) ± \(deviation | digits(1))") | \(map(.loss) | mean | digits(3)) | " +
    "\(if ($reached | length) > 0 then "\($reached | mean | digits(1)), \($reached | length) of \(length)" else "" end) |")
