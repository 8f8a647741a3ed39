#!/bin/bash
# The page of `kubectl-skyjob report` in a real browser, headless Chromium: wide and narrow, light and dark, with few stages
# and with many. `make test-browser`; the screenshots are in build/browser, to be looked at.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/support/tap.sh
. tests/support/tap.sh
tap_only=("$@")
cli=${OUT:-build/release}/bin/kubectl-skyjob out=$PWD/build/browser
rm -rf "$out"
mkdir -p "$out"

# --- pages ---
history() { # history STEPS: the loss falls, with an outlier, a gap and evaluations
    awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++) {
        loss = 2 * exp(-3 * i / n) + (i * 7919 % 101) / 500
        printf("{\"step\":%d,\"seconds\":%.3f,\"loss\":%s,\"tokensPerSecond\":%.1f,\"stepMilliseconds\":%.2f}\n", i, i / 9,
            i == int(n / 2) ? "null" : i == int(n / 3) ? 40 : loss, 28000 + i * 31 % 2000, 80 + i * 13 % 9)
        if (i % 50 == 0) printf("{\"step\":%d,\"seconds\":%.3f,\"metrics\":{\"accuracy\":%.4f,\"evalLoss\":%.4f}}\n", i, i / 9, 1 - loss / 3, loss) } }'
}
status() { # status STAGES REPLICAS NODE: as `kubectl-skyjob run --json` has it
    jq -n --argjson n "$1" --argjson replicas "$2" --arg node "$3" '{job: "mnli", state: "Done", seconds: 70, step: 600, loss: 0.3, stepMilliseconds: 90,
        tokensPerSecond: 28018.3, metrics: {accuracy: 0.91, evalLoss: 0.27}, strategy: "Optimal", microBatches: 8, predictedStepMilliseconds: 99.4,
        bottleneck: 1, explanation: "A step is predicted to take 99 ms.", shares: [range($replicas) | 8 / $replicas],
        stages: [range($n * $replicas) | . as $i | {slot: $i, incarnation: 1, replica: (($i / $n) | floor), firstUnit: ($i % $n), unitCount: 1,
            units: "feed-forward \($i % $n)", node: "\($node)\($i)", cpuMilli: 500, memoryBytes: 2e8, predictedMicroseconds: (9000 + 300 * $i),
            busyPercent: 90, measuredMicroseconds: (9500 + 200 * $i)}]}'
}
page() { # page NAME STEPS STAGES REPLICAS NODE
    history "$2" >"$out/$1.jsonl" && status "${@:3}" >"$out/$1.json" && "$cli" report --history "$out/$1.jsonl" --status "$out/$1.json" -o "$out/$1.html"
}
page few 600 2 1 worker- && page many 20000 12 2 ip-10-0-137-201.eu-central-1.compute.internal- || exit 1

# --- what the browser makes of them ---
chromium() { # chromium WIDTH ARGUMENT...
    timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --user-data-dir="$out/profile" \
        --window-size="$1,2400" "${@:2}" 2>"$out/log"
}
seen() { # seen PAGE WIDTH: what is wrong, and the number of pictures
    { sed 's|</body>.*||' "$out/$1.html" && echo '<pre id="seen"></pre><script>' && cat tests/integration/browser.js && echo '</script></body></html>'; } >"$out/probed.html" &&
        chromium "$2" --dump-dom "file://$out/probed.html" | tr '\n' '\r' | sed -n 's|.*<pre id="seen">\([^<]*\)</pre>.*|\1|p' | tr '\r' '\n' && echo
}

is_whole() { # is_whole PAGE WIDTH
    seen "$1" "$2" >"$out/seen" || return
    cat "$out/seen"
    [ "$(cat "$out/seen")" = '7 pictures' ]
}
wide() { is_whole few 1200 && is_whole many 1200; }
narrow() { is_whole few 400 && is_whole many 400; }
alone() { ! grep -nE '(src|href)=|url\(|@import|https?:' "$out"/few.html "$out"/many.html; }
shot() { chromium "$2" --screenshot="$out/$1-$2${4:-}.png" "${@:3:1}" "file://$out/$1.html" && [ "$(stat -c %s "$out/$1-$2${4:-}.png")" -gt 30000 ]; }
shots() {
    shot few 1200 --force-color-profile=srgb && shot many 1200 --force-color-profile=srgb && shot few 400 --force-color-profile=srgb &&
        shot few 1200 --blink-settings=preferredColorScheme=0 -dark && ! cmp -s "$out/few-1200.png" "$out/few-1200-dark.png"
}

check 'a page needs nothing but itself' alone
check 'in a wide window nothing is cut off or covered' wide
check 'nor in a narrow one' narrow
check 'it is drawn, and in the dark in other colours' shots
rm -rf "$out/profile" "$out/probed.html"
tap_end
