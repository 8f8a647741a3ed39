#!/usr/bin/env python3
"""Makes tests/unit/data/golden_metrics.h: metrics as scikit-learn and scipy compute them.

Run it with both installed: hack/gen-golden-metrics.py > tests/unit/data/golden_metrics.h
The data is a small congruential sequence, so that the test in C makes the same: see draw() there.
"""
import warnings

from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

# name, seed, samples, labels (0: a regression), how answers follow from truths
CASES = [("balanced", 1, 200, 2, "mostly"), ("rare", 2, 300, 2, "noise"),
         ("three_labels", 3, 150, 3, "mostly"), ("all_wrong", 4, 50, 2, "wrong"),
         ("perfect", 5, 40, 3, "same"), ("one_label_answered", 6, 60, 2, "constant"),
         ("one_sample", 7, 1, 2, "same"), ("scores", 8, 100, 0, "mostly"),
         ("tied_scores", 9, 120, 0, "coarse"), ("opposite_scores", 10, 30, 0, "wrong"),
         ("constant_scores", 11, 30, 0, "constant"), ("far_scores", 12, 50, 0, "far"),
         ("three_labels_one_answered", 13, 60, 3, "constant"),
         ("one_sample_of_three_labels", 14, 1, 3, "same"),
         ("three_labels_all_wrong", 15, 50, 3, "wrong")]


def draw(state):
    state = (state * 1664525 + 1013904223) % 2**32
    return state, state >> 16


def data(seed, n, labels, how):
    truths, answers = [], []
    for _ in range(n):
        seed, a = draw(seed)
        seed, b = draw(seed)
        if labels:
            truth = a % labels
            if how == "noise":
                truth = int(a % 10 == 0)
            answer = {"mostly": truth if b % 4 else b // 4 % labels, "noise": int(b % 8 == 0),
                      "wrong": (truth + 1) % labels, "same": truth, "constant": 0}[how]
        else:
            truth = a % 26 / 4 if how == "coarse" else a / 8192
            answer = {"mostly": truth / 2 + b / 16384, "coarse": float(b % 5 + a % 26 // 8),
                      "wrong": -truth, "constant": 2.5, "far": 128 + truth / 2 + b / 16384}[how]
        truths.append(truth)
        answers.append(answer)
    return truths, answers


def main():
    warnings.simplefilter("ignore")
    print("/* Made by hack/gen-golden-metrics.py; do not edit. */\n")
    print("/* clang-format off */")
    print("static struct golden goldens[] = {")
    for name, seed, n, labels, how in CASES:
        t, a = data(seed, n, labels, how)
        if labels:
            values = {"accuracy": accuracy_score(t, a), "matthews": matthews_corrcoef(t, a),
                      "f1": f1_score(t, a, labels=[1] if labels == 2 else None, average="macro",
                                     zero_division=0)}
        else:
            constant = len(set(a)) == 1
            values = {"pearson": 0.0 if constant else pearsonr(a, t).statistic,
                      "spearman": 0.0 if constant else spearmanr(a, t).statistic}
        numbers = ", ".join(f".{k} = {float(v)!r}" for k, v in values.items())
        print(f'    {{"metric_of_{name}_is_the_references", {seed}, {n}, {labels}, "{how}", '
              f"{numbers}}},")
    print("};")
    print("/* clang-format on */")


main()
