# The rows of tests/bench/sync.sh as an SVG: jq -rs -f tests/bench/sync_plot.jq FILE
# Accuracy against seconds (logarithmic) of the part `uneven`: a panel for each optimizer, a curve for each run, the mean
# over seeds at each evaluation. A family has a colour and a mark, and within it a run a dash of its own.
def mean: add / length;
def round2: . * 100 | round / 100;
def style: {
    even: ["#000000", "square", ""], bsp: ["#000000", "square", "6 3"], pipeline: ["#000000", "square", "2 3"],
    ddp: ["#b2182b", "cross", ""],
    asp: ["#d95f02", "circle", ""],
    local8: ["#1b7f5c", "triangle", ""], local32: ["#1b7f5c", "triangle", "6 3"], local128: ["#1b7f5c", "triangle", "2 3"],
    switch6: ["#3b5fc0", "diamond", ""], switch12: ["#3b5fc0", "diamond", "8 3"], switch25: ["#3b5fc0", "diamond", "4 3"],
    switch50: ["#3b5fc0", "diamond", "1 3"]};
def mark($kind): "\(.[0] | round2) \(.[1] | round2)" as $at | {
    square: "m-3 -3h6v6h-6z", circle: "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z", triangle: "m0 -4l4 7h-8z", diamond: "m0 -4l4 4l-4 4l-4 -4z",
    cross: "m-3 -3l6 6m0 -6l-6 6"}[$kind] | "M\($at)\(.)";
def text($x; $y; $more): "<text x=\"\($x | round2)\" y=\"\($y | round2)\" \($more)>\(.)</text>";
# Points on the page, as a line with marks.
def curve($style):
    "<path d=\"M\(map("\(.[0] | round2) \(.[1] | round2)") | join("L"))\" fill=\"none\" stroke=\"\($style[0])\" stroke-width=\"1.5\" stroke-dasharray=\"\($style[2])\"/>",
    "<path d=\"\(map(mark($style[1])) | join(""))\" fill=\"\($style[0])\" stroke=\"\($style[0])\"/>";
# The runs of an optimizer: [{name, points: [[seconds, accuracy in percent]]}], in the order of style.
def curves: group_by(.protocol) | map({name: .[0].protocol,
    points: (map(.evaluations) | transpose | map([(map(.[1]) | mean), (map(.[2] * 100) | mean)]))}) | map({(.name): .}) | add as $of |
    [style | keys_unsorted[] | $of[.] // empty];
def panel_width: 420;
def panel($left; $title; $from; $to; $low; $high):
    (($to / $from) | log) as $decades |
    def x: $left + (. / $from | log) / $decades * panel_width;
    def y: 350 - (. - $low) / ($high - $low) * 300;
    ($title | text($left; 38; "font-weight=\"bold\"")),
    "<path d=\"M\($left) 50V350H\($left + panel_width)\" fill=\"none\" stroke=\"#000\"/>",
    (range($low; $high + 1; if $high - $low > 30 then 10 else 5 end) |
        "<path d=\"M\($left) \(y | round2)h\(panel_width)\" stroke=\"#ddd\"/>", (tostring | text($left - 8; (. | tonumber | y) + 4; "text-anchor=\"end\""))),
    (range(-1; 5) as $e | 1, 2, 5 | . * pow(10; $e) | select(. >= $from and . <= $to) | round2 as $tick | x as $x |
        "<path d=\"M\($x | round2) 350v5\" stroke=\"#000\"/>", ($tick | tostring | text($x; 369; "text-anchor=\"middle\""))),
    ("seconds (logarithmic)" | text($left + panel_width / 2; 392; "text-anchor=\"middle\"")),
    (.[] | style[.name] as $style | .points | map([(.[0] | x), (.[1] | y)]) | curve($style));
def legend($left): to_entries[] | (60 + 22 * .key) as $y | style[.value] as $style |
    ([[$left, $y], [$left + 22, $y], [$left + 44, $y]] | curve($style)), (.value | text($left + 54; $y + 4; ""));
map(select(.part == "uneven" and style[.protocol])) | select(length > 0) |
group_by(.optimizer) | map({optimizer: .[0].optimizer, curves: curves}) | . as $panels |
[.[].curves[].points[]] as $points | ($points | map(.[0])) as $seconds | ($points | map(.[1])) as $percents |
(($percents | min) / 5 | floor * 5) as $low | ([($percents | max) / 5 | ceil * 5, $low + 5] | max) as $high |
(60 + length * (panel_width + 60)) as $right |
"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"\($right + 140)\" height=\"405\" font-family=\"sans-serif\" font-size=\"12\">",
"<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>",
("accuracy %" | text(0; 0; "text-anchor=\"middle\" transform=\"translate(16 200) rotate(-90)\"")),
(to_entries[] | .key as $i | .value | .optimizer as $title | .curves |
    panel(60 + $i * (panel_width + 60); $title; ($seconds | min) * 0.9; ($seconds | max) * 1.1; $low; $high)),
([$panels[].curves[].name] | unique as $names | [style | keys_unsorted[] | select(IN($names[]))] | legend($right - 30)),
"</svg>"
