#!/bin/bash
# What a job can learn, by the real worker binary over real websockets: every kind of head, cut in
# every way, and files that are wrong. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/support/tap.sh
. tests/support/tap.sh
bin=${OUT:-build/release}/bin
sample=build/sample/mnli
work=$(mktemp -d)
at_exit "rm -rf $work"

# --- data: the sample's sentences as a corpus, as rows with a class, as rows with a number ---
text=$work/text rows=$work/rows
mkdir "$text" "$rows"
for split in train dev; do
    from=$sample/train.tsv
    [ $split = train ] || from=$sample/dev_matched.tsv
    awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        { print $at["sentence1"]; print $at["sentence2"]; if (NR % 4 == 0) print "" }' \
        "$from" | head -n 1500 >"$text/$split.txt"
    awk -F'\t' -v OFS='\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i
            print "answer", "said", "claim", "grade"; next }
        { grade = index("cne", substr($at["gold_label"], 1, 1)) * 1.5
          print $at["gold_label"], $at["sentence1"], $at["sentence2"], grade }' \
        "$from" | head -n 400 >"$rows/$split.tsv"
done
{ printf '[MASK]\n'; cat $sample/vocab.txt; } | awk '!seen[$0]++' >"$text/vocab.txt"
cp $sample/vocab.txt "$rows/vocab.txt"
cut -f 2,3 "$rows/dev.tsv" >"$rows/test.tsv"

# job NAME FOLDER DATA [TRAINING]: dropout, warm-up and clipping are on by default.
job() {
    cat >"$work/$1.yaml" <<Y
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: short}
spec:
  model: {preset: BertTiny, hiddenSize: 64, vocabSize: 300, maxPositions: 64}
  data: {source: {configMap: {name: x}}, $3}
  training: {steps: 6, batchSize: 16, microBatches: 4, maxSequenceLength: 48, ${4:-"optimizer: {learningRate: \"1e-3\"}"}}
Y
    echo "$2" >"$work/$1.folder"
}
run() { # run JOB OUTPUT WORKERS
    timeout 120 "$bin/kubectl-skyjob" run -f "$work/$1.yaml" --workers "$3" --strategy Even \
        --data "$(cat "$work/$1.folder")" --output "$work/$2" >"$work/$2.log" 2>&1
}
judged() { # judged JOB: the figures in the last line of a run, each in a line
    sed -n 's/^done: //p' "$work/$1.log" | sed 's/, /\n/g' | grep -E '^[a-zA-Z]+ (-?[0-9.]+|NaN)$' | sed 's/^/  /'
}

# The same losses, metrics and weights, to the last bit, on one worker and on 2, 3 and 5.
cuts() { # cuts JOB
    local workers
    run "$1" "$1-1" cpu=1 || { cat "$work/$1-1.log"; return 1; }
    for workers in cpu=1,cpu=1 cpu=0.5,cpu=1,cpu=0.7 cpu=1,cpu=1,cpu=1,cpu=1,cpu=1; do
        run "$1" "$1-n" "$workers" || { cat "$work/$1-n.log"; return 1; }
        echo "$workers: $(weights_of "$work/$1-1") $(weights_of "$work/$1-n")"
        judged "$1-1"
        judged "$1-n"
        [ "$(weights_of "$work/$1-1")" = "$(weights_of "$work/$1-n")" ] || return 1
        [ -n "$(judged "$1-1")" ] && [ "$(judged "$1-1")" = "$(judged "$1-n")" ] || return 1
        mv "$work/$1-n" "$work/$1-kept" 2>/dev/null || rm -rf "$work/$1-n"
    done
}
says() { # says LOG WORD...
    local log=$1 word
    shift
    judged "$log"
    for word; do judged "$log" | has "^  $word " || return 1; done
}

own='columns: {text: said, pair: claim, label: answer}, labels: [contradiction, neutral, entailment]'
job pretraining "$text" 'task: Pretraining'
check 'pre-training gives the same bits on 1, 2, 3 and 5 workers' cuts pretraining
check 'pre-training is judged by both of its tasks' says pretraining-1 accuracy nextSentenceAccuracy evalLoss
job masked "$text" 'task: MaskedLM' 'microBatches: 2, optimizer: {learningRate: "1e-3"}'
sed -i 's/microBatches: 4, //' "$work/masked.yaml"
check 'masked words with other micro-batches give the same bits on all of them' cuts masked
job regression "$rows" 'task: Regression, columns: {text: said, label: grade}'
check 'a regression gives the same bits on all of them' cuts regression
check 'a regression is judged by its correlations' says regression-1 pearson spearman evalLoss
job classes "$rows" "task: Classification, files: {test: test.tsv}, $own" \
    'optimizer: {type: SGD, learningRate: "0.05"}'
check 'classes learnt by SGD are the same bits on all of them' cuts classes
predicted() { # as many answers as there are rows, the same whatever the cut
    local row
    row=$(wc -l <"$rows/test.tsv")
    head -n 3 "$work/classes-1/predictions.tsv"
    [ "$(wc -l <"$work/classes-1/predictions.tsv")" = "$row" ] &&
        cmp "$work/classes-1/predictions.tsv" "$work/classes-kept/predictions.tsv" &&
        tail -n +2 "$work/classes-1/predictions.tsv" |
        awk -F'\t' '$1 != NR - 1 || $2 !~ /^(contradiction|neutral|entailment)$/ { exit 1 }'
}
check 'the test file gets a prediction a row' predicted
# 40 rows in steps of 16, 16 and 8, the last of which has no more than 8 micro-batches.
mkdir "$work/few"
cp "$rows/vocab.txt" "$rows/dev.tsv" "$work/few"
sed 41q "$rows/train.tsv" >"$work/few/train.tsv"
job rest "$work/few" "task: Classification, $own" 'microBatches: 16, optimizer: {learningRate: "1e-3"}'
sed -i 's/microBatches: 4, //' "$work/rest.yaml"
check 'the smaller batch that ends an epoch gives the same bits on all of them' cuts rest

# --- other files ---
mkdir "$work/csv"
cp "$rows/vocab.txt" "$rows/test.tsv" "$work/csv"
for split in train dev; do
    awk -F'\t' -v OFS=, '{ for (i = 1; i <= NF; i++) { gsub(/"/, "\"\"", $i); $i = "\"" $i "\"" } print }' \
        "$rows/$split.tsv" >"$work/csv/$split.csv"
done
job csv "$work/csv" "task: Classification, files: {train: train.csv, dev: dev.csv}, $own" \
    'optimizer: {type: SGD, learningRate: "0.05"}'
reads_csv() {
    run csv csv-1 cpu=1 || { cat "$work/csv-1.log"; return 1; }
    [ "$(weights_of "$work/csv-1")" = "$(weights_of "$work/classes-1")" ] && [ "$(judged csv-1)" = "$(judged classes-1)" ]
}
check 'quoted CSV is learnt from as the same rows in a TSV file' reads_csv
without_dev() {
    mkdir "$work/alone"
    cp "$rows/vocab.txt" "$rows/train.tsv" "$rows/test.tsv" "$work/alone"
    echo "$work/alone" >"$work/classes.folder"
    run classes alone-1 cpu=1,cpu=1 || { cat "$work/alone-1.log"; return 1; }
    echo "$rows" >"$work/classes.folder"
    [ "$(weights_of "$work/alone-1")" = "$(weights_of "$work/classes-1")" ] && ! judged alone-1 | grep -E 'accuracy|evalLoss' &&
        cmp "$work/alone-1/predictions.tsv" "$work/classes-1/predictions.tsv"
}
check 'a job without a dev file is trained and not judged' without_dev

# --- a link that carries half the bytes ---
sed 's/^  training:/  wire: {precision: BF16}\n  training:/' "$work/classes.yaml" >"$work/narrow.yaml"
cp "$work/classes.folder" "$work/narrow.folder"
narrow() { # on one worker nothing travels; on two the loss is another one, but hardly
    run narrow narrow-1 cpu=1 && run narrow narrow-2 cpu=1,cpu=1 || return 1
    judged narrow-1
    judged narrow-2
    [ "$(weights_of "$work/narrow-1")" = "$(weights_of "$work/classes-1")" ] &&
        [ "$(weights_of "$work/narrow-2")" != "$(weights_of "$work/classes-1")" ] &&
        awk 'NR == FNR { if ($1 == "evalLoss") was = $2; next }
            $1 == "evalLoss" { exit !(($2 - was) ^ 2 < (was / 100) ^ 2) }' \
            <(judged narrow-1) <(judged narrow-2)
}
check 'tensors that travel as bfloat16 change the loss by less than 1%' narrow

# --- numbers that are not finite ---
# One row whose error squared is no float any more, met about once an epoch of two steps.
mkdir "$work/steep"
cp "$rows/vocab.txt" "$rows/dev.tsv" "$work/steep"
{ sed 33q "$rows/train.tsv" | cut -f 1-3 | awk -v OFS='\t' 'NR == 1 { print $0, "grade" } NR > 1 { print $0, NR % 3 }'
  printf 'neutral\tA cat is here.\tA cat is here.\t1e30\n'; } >"$work/steep/train.tsv"
job wild "$work/steep" 'task: Regression, columns: {text: said, label: grade}'
ends() { # ends CODE WORDS JOB
    local rc
    run "$3" "$3-out" cpu=1
    rc=$?
    echo "exit $rc"
    cat "$work/$3-out.log"
    [ "$rc" -eq "$1" ] && grep -q -- "$2" "$work/$3-out.log"
}
ends_finite() { ! grep -Eqi 'nan|inf' <(judged skips-out); }
check 'a loss that is not finite ends the run with a remedy' ends 2 'lower spec.training.optimizer.learningRate' wild
sed 's/{steps/{nonFinitePolicy: Skip, steps/' "$work/wild.yaml" >"$work/skips.yaml"
cp "$work/wild.folder" "$work/skips.folder"
check 'or is left out and counted' ends 0 'skipped' skips
check 'and what is learnt stays finite' ends_finite
sed 's/{steps: 6/{steps: 1/' "$work/skips.yaml" >"$work/none.yaml"
mkdir "$work/allsteep"
cp "$work/steep/vocab.txt" "$work/steep/dev.tsv" "$work/allsteep"
{ sed 1q "$work/steep/train.tsv"; tail -n 1 "$work/steep/train.tsv"; } >"$work/allsteep/train.tsv"
echo "$work/allsteep" >"$work/none.folder"
check 'a run of which every step is left out fails' ends 1 'nothing was learned' none


# --- files that are wrong: exit code 2, and a line that says what, where and what to do ---
broken() { # broken WORDS FILE COMMAND...: the file as the command makes it from the good one
    local words=$1 file=$2
    shift 2
    rm -rf "$work/bad"
    cp -r "$rows" "$work/bad"
    "$@" <"$rows/$file" >"$work/bad/$file"
    job bad "$work/bad" "task: Classification, $own"
    ends 2 "$words" bad
}
check 'a missing column is named with those there are' broken '"answer".*said' train.tsv sed 1s/answer/verdict/
check 'an unknown label is named with its line' broken 'line 3.*"maybe"' train.tsv sed '3s/^[a-z]*/maybe/'
check 'a row of too few columns is named' broken 'line 4' train.tsv sed '4s/\t.*//'
check 'an empty line in the middle is named' broken 'line 5' train.tsv sed '5s/.*//'
check 'text that is not UTF-8 is named with its line' broken 'line 6' dev.tsv sed '6s/\t/\t\xff/'
long_line() { sed 2q; head -c 10000000 /dev/zero | tr '\0' a; echo; }
check 'a line of 10 MB is refused' broken 'line 3' train.tsv long_line
check 'an empty file is refused' broken 'train.tsv' train.tsv true
check 'a vocabulary without [SEP] is refused' broken 'vocab.txt.*SEP' vocab.txt sed '/\[SEP\]/d'
sed 's/hiddenSize: 64/hiddenSize: 60, attentionHeads: 7/' "$work/classes.yaml" >"$work/heads.yaml"
cp "$work/classes.folder" "$work/heads.folder"
check 'heads that do not divide the hidden size are refused' ends 2 'hiddenSize: 60 is not a multiple' heads

from_model() { # from_model WORDS COMMAND...: start from the trained model after the command on it
    local words=$1 rc
    shift
    rm -rf "$work/model"
    cp -r "$work/classes-1" "$work/model"
    "$@" || return 1
    timeout 120 "$bin/kubectl-skyjob" run -f "$work/classes.yaml" --workers cpu=1 --data "$rows" \
        --model "$work/model" >"$work/model.log" 2>&1
    rc=$?
    echo "exit $rc"
    cat "$work/model.log"
    [ "$rc" -eq 2 ] && grep -q -- "$words" "$work/model.log"
}
# A head of 3 labels and 64 hidden elements ends the file: its rows from the last to the first.
reversed() {
    local good=$work/classes-1/model.safetensors row
    {
        head -c -780 "$good"
        for row in 2 1 0; do tail -c 780 "$good" | tail -c +$((row * 256 + 1)) | head -c 256; done
        for row in 2 1 0; do tail -c 12 "$good" | tail -c +$((row * 4 + 1)) | head -c 4; done
    } >"$work/model/model.safetensors"
    sed -i 's/contradiction/other/g; s/entailment/contradiction/g; s/other/entailment/g' "$work/model/config.json"
}
same_labels() { # a run that hardly learns judges like the one whose model it starts from
    local name
    sed 's/steps: 6/steps: 1/; s/"0.05"/"1e-9"/' "$work/classes.yaml" >"$work/again.yaml"
    for name in kept reversed; do
        rm -rf "$work/model"
        cp -r "$work/classes-1" "$work/model"
        [ $name = kept ] || reversed
        timeout 120 "$bin/kubectl-skyjob" run -f "$work/again.yaml" --workers cpu=1 --data "$rows" \
            --model "$work/model" >"$work/$name.log" 2>&1 || { cat "$work/$name.log"; return 1; }
        judged $name
    done
    ! cmp -s "$work/classes-1/model.safetensors" "$work/model/model.safetensors" &&
        [ "$(judged kept | grep accuracy)" = "$(judged reversed | grep accuracy)" ] &&
        [ "$(judged kept | grep accuracy)" = "$(judged classes-1 | grep accuracy)" ]
}
check 'a model that numbers its labels the other way round is judged the same' same_labels
other_labels() { sed -i 's/entailment/yes/g' "$work/model/config.json"; }
check 'a model of other labels is refused with both lists' from_model 'labels contradiction, neutral, yes; the task has contradiction, neutral, entailment' other_labels
cased() { sed -i 's/"do_lower_case": *true/"do_lower_case":false/' "$work/model/tokenizer_config.json" &&
    sed -i 's/model: {/&case: Uncased, /' "$work/classes.yaml"; }
check 'a cased model is not lower-cased' from_model 'leave spec.model.case out' cased
sed -i 's/case: Uncased, //' "$work/classes.yaml"
cut_short() { truncate -s -100 "$work/model/model.safetensors"; }
too_long() { echo rest >>"$work/model/model.safetensors"; }
no_number() { printf '\xff\xff\xff\x7f' | dd of="$work/model/model.safetensors" bs=1 conv=notrunc \
    seek=$(($(stat -c %s "$work/model/model.safetensors") - 8)) status=none; }
other_size() { sed -i 's/"hidden_size": *64/"hidden_size": 66/' "$work/model/config.json"; }
check 'weights cut short are refused' from_model 'model.safetensors' cut_short
check 'weights with a rest are refused' from_model 'model.safetensors' too_long
check 'a weight that is no number is named by its tensor' from_model 'classifier.bias' no_number
check 'a model of another size is refused with the field to set' from_model 'spec.model.hiddenSize' other_size
tap_end
