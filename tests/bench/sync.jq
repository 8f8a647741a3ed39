# The rows of tests/bench/sync.sh as tables: jq -rs -f tests/bench/sync.jq FILE
# Time to accuracy is until the first evaluation that is no more than half a point below what BSP with equal shares
# has in the end.
def mean: add / length;
def deviation: mean as $m | if length > 1 then (map(. - $m | . * .) | add / (length - 1) | sqrt) else 0 end;
def digits($n): . * pow(10; $n) | round / pow(10; $n) | tostring;
def accuracy: map(.accuracy * 100) | "\(mean | digits(1)) ± \(deviation | digits(1))";
def reached($target): map(.evaluations | map(select(.[2] >= $target)) | .[0][1] // empty);
def seconds: map(.seconds) | mean;
def step_ms: map(.seconds / .steps) | mean * 1000;
# "2.00x" of what another run has, if that is there.
def times($of): if $of then (. / $of | digits(2)) + "x" else "" end;
def only($part): map(select(.part == $part));
def named($name): map(select(.protocol == $name)) | if length > 0 then . else null end;

def uneven:
    "| optimizer | one of several is slow | runs | seconds | speed | accuracy % | loss | seconds to accuracy |",
    "|---|---|--:|--:|--:|--:|--:|--:|",
    (group_by(.optimizer)[] | named("even") as $even | group_by(.protocol)[] |
        (if $even then reached(($even | map(.accuracy) | mean) - 0.005) else [] end) as $reached |
        "| \(.[0].optimizer) | \(.[0].protocol) | \(length) | \(seconds | digits(1)) | \(seconds as $s | $even | if . then seconds | times($s) else "" end) | " +
        "\(accuracy) | \(map(.loss) | mean | digits(3)) | " +
        "\(if ($reached | length) > 0 then "\($reached | mean | digits(1)), \($reached | length) of \(length)" else "" end) |"),
    "";
def lag:
    named("calm") as $calm |
    "| one is slow at times | runs | seconds | of calm | accuracy % | loss |",
    "|---|--:|--:|--:|--:|--:|",
    (group_by(.protocol)[] | "| \(.[0].protocol) | \(length) | \(seconds | digits(1)) | \(seconds | times($calm | if . then seconds else null end)) | " +
        "\(accuracy) | \(map(.loss) | mean | digits(3)) |"),
    "";
def delay:
    "| the link delays at times, each way | runs | seconds | of no delay | accuracy % |",
    "|---|--:|--:|--:|--:|",
    (. as $rows | group_by(.protocol | split("-"))[] | (.[0].protocol | split("-")) as [$ms, $protocol] |
        ($rows | named("delay0-\($protocol)") | if . then seconds else null end) as $calm |
        "| \($protocol), \($ms | ltrimstr("delay")) ms | \(length) | \(seconds | digits(1)) | \(seconds | times($calm)) | \(accuracy) |"),
    "";
# Steps count the tickets of all: what the others can do is theirs of the time before, by the quotas of the workers.
def stopped:
    "| one of \(.[0].replicas) is stopped, ASP | runs | steps per second of the others before | while it is stopped | of that |",
    "|---|--:|--:|--:|--:|",
    (group_by(.protocol)[] | (.[0].protocol == "stopped-slow") as $is_slow |
        (.[0].replicas - 0.75) as $all | ($all - if $is_slow then 0.25 else 1 end) as $others |
        (map(.before) | mean * $others / $all) as $before | (map(.stopped) | mean) as $stopped |
        "| \(if $is_slow then "the slow one, no unit's home" else "a fast one" end) | \(length) | \($before | digits(1)) | " +
        "\($stopped | digits(1)) | \($stopped / $before * 100 | digits(0))% |"),
    "";
# Accuracy is of those that have as many steps as free-bsp, which has what link-bsp would have.
def link:
    named("link-bsp") as $bsp | (named("free-bsp") // [{}])[0].steps as $steps |
    "| 10 Mbit/s, 20 ms | runs | ms a step | predicted | speed | accuracy % after \($steps // 0) steps |",
    "|---|--:|--:|--:|--:|--:|",
    (group_by(.protocol)[] | "| \(.[0].protocol) | \(length) | \(step_ms | digits(0)) | \(map(.predictedMs) | mean | if . > 0 then digits(0) else "" end) | " +
        "\(step_ms as $ms | $bsp | if . then step_ms | times($ms) else "" end) | \(if .[0].steps == $steps then accuracy else "" end) |"),
    "";
# What Sync-Switch publishes of ResNet32 on CIFAR-10: the share of BSP, then ASP, in seconds and percent.
def published: {even: ["BSP", 10647, 92.01], switch50: ["50%", 5994, 92.02], switch25: ["25%", 3900, 91.86], switch12: ["15%, ours 12%", 3134, 91.37],
    switch6: ["6.25%, ours 6%", 2083, 91.02], asp: ["ASP", 1607, 89.18]};
def signed: if . < 0 then digits(1) else "+" + digits(1) end;
# [seconds, accuracy] of a run against those of BSP, as two cells.
def against($bsp): "\($bsp[0] / .[0] | digits(2))x | \(.[1] - $bsp[1] | signed)";
def figures: [seconds, (map(.accuracy * 100) | mean)];
def beside_published:
    published as $theirs | group_by(.optimizer)[] | named("even") as $even | select($even) | .[0].optimizer as $optimizer |
    "| BSP, then ASP | ResNet32, CIFAR-10, 8 K80: speed | accuracy | BertTiny, \($optimizer), one of \(.[0].replicas) slow: speed | accuracy |",
    "|---|--:|--:|--:|--:|",
    (($theirs | keys_unsorted[]) as $name | named($name) | select(.) |
        "| \($theirs[$name][0]) | \($theirs[$name][1:] | against($theirs.even[1:])) | \(figures | against($even | figures)) |"),
    "",
    # A replica k times slower than n - 1 others: in step all do n tickets in the slow one's time for one, else k(n - 1) + 1.
    (.[0].replicas as $n | ((4 * ($n - 1) + 1) / $n) as $bound |
        "One of \($n) replicas is 4 times slower: ASP can have \($bound | digits(2)) times the speed of BSP with equal shares. Reached, evaluations included: " +
        ([group_by(.protocol)[] | select(.[0].protocol | test("^(asp|switch)")) | "\(.[0].protocol) \(($even | seconds) / seconds / $bound * 100 | digits(0))%"] |
            join(", ")) + "."),
    "";
def sources:
    "Speed and accuracy (points) are against BSP with equal shares. ResNet32: Sync-Switch (ICDCS 2021, arXiv 2104.08364), means of the raw results in",
    "github.com/cake-lab/Sync-Switch, as processed there: without the restart of 190 s and more at a switch. Its nodes are alike; ours are not.";
(only("uneven") | select(length > 0) | uneven, (if named("even") then beside_published, sources, "" else empty end)),
    (only("lag") | select(length > 0) | lag), (only("delay") | select(length > 0) | delay),
    (only("stopped") | select(length > 0) | stopped), (only("link") | select(length > 0) | link)
