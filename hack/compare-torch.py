#!/usr/bin/env python3
"""Fine-tunes a SkyJob in PyTorch: the same model, data, order and steps, to compare with.

    python3 -m venv v && v/bin/pip install torch transformers safetensors pyyaml
    v/bin/python hack/compare-torch.py head MODEL START --labels N   # give MODEL a head, in START
    kubectl-skyjob run -f job.yaml --model START --data DATA --workers cpu=1
    v/bin/python hack/compare-torch.py train job.yaml START DATA     # the same in PyTorch

A Classification or Regression from TSV files with columns of their own, dropout "0". The order of
the rows is that of worker/data/sampler. Prints the loss of every step and the dev set's at the end.
Not needed to build or test anything.
"""
import argparse
import csv
import math
import pathlib

import torch
import yaml
from transformers import BertForSequenceClassification, BertTokenizer

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
ROUNDS = 8


def mix(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def order(seed, epoch, n):
    """The permutation of an epoch: a Feistel network, walked on until it falls inside n."""
    key = mix((mix((seed + GOLDEN) & MASK) + epoch) & MASK)
    bits = 1
    while 1 << 2 * bits < n:
        bits += 1

    def feistel(x):
        left, right = x >> bits, x & (1 << bits) - 1
        for r in range(ROUNDS):
            keyed = (right + key + GOLDEN * (r + 1)) & MASK
            left, right = right, left ^ mix(keyed) >> 64 - bits
        return left << bits | right

    for position in range(n):
        x = feistel(position)
        while x >= n:
            x = feistel(x)
        yield x


def rows(path, data):
    with open(path, encoding="utf-8-sig", newline="") as f:
        table = csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE)
        columns = data["columns"]
        for row in table:
            pair = row[columns["pair"]] if "pair" in columns else None
            label = row[columns["label"]]
            yield row[columns["text"]], pair, (
                data["labels"].index(label) if "labels" in data else float(label))


class Task:
    def __init__(self, spec, start, folder):
        self.spec, self.data, self.how = spec, spec["data"], spec.get("training", {})
        self.model = BertForSequenceClassification.from_pretrained(start)
        self.tokenizer = BertTokenizer(str(pathlib.Path(start) / "vocab.txt"),
                                       do_lower_case=spec["model"].get("case") != "Cased")
        self.length = self.how.get("maxSequenceLength", 128)
        self.train, self.dev = (list(rows(pathlib.Path(folder) / f, self.data))
                                for f in ("train.tsv", "dev.tsv"))

    def logits_and_losses(self, batch):
        texts, pairs, labels = zip(*batch)
        x = self.tokenizer(list(texts), list(pairs) if pairs[0] is not None else None,
                           truncation="longest_first", max_length=self.length, padding=True,
                           return_tensors="pt")
        logits = self.model(**x).logits
        if "labels" in self.data:
            return logits, torch.nn.functional.cross_entropy(
                logits, torch.tensor(labels), reduction="none")
        return logits, (logits[:, 0] - torch.tensor(labels)) ** 2

    def optimizer(self, total):
        o = self.how.get("optimizer", {})
        decay = float(o.get("weightDecay", "0.01"))
        matrices = [p for p in self.model.parameters() if p.ndim == 2]
        rest = [p for p in self.model.parameters() if p.ndim != 2]
        adamw = torch.optim.AdamW([{"params": matrices, "weight_decay": decay},
                                   {"params": rest, "weight_decay": 0.0}],
                                  lr=float(o.get("learningRate", "2e-5")),
                                  betas=(float(o.get("beta1", "0.9")), float(o.get("beta2", "0.999"))),
                                  eps=float(o.get("epsilon", "1e-8")))
        warmup = math.ceil(float(o.get("warmupRatio", "0.1")) * total)

        def rate(step):
            if step < warmup:
                return step / warmup
            return max(0.0, (total - step) / max(1, total - warmup))

        return adamw, torch.optim.lr_scheduler.LambdaLR(adamw, rate)

    def fit(self):
        size, epochs = self.how.get("batchSize", 32), self.how.get("epochs", 3)
        seed, limit = self.how.get("seed", 42), float(self.how.get("maxGradientNorm", "1.0"))
        per_epoch = math.ceil(len(self.train) / size)
        total = self.how.get("steps", epochs * per_epoch)
        adamw, schedule = self.optimizer(total)
        self.model.eval()  # no dropout
        for step in range(total):
            if step % per_epoch == 0:
                places = list(order(seed, step // per_epoch, len(self.train)))
            first = step % per_epoch * size
            _, losses = self.logits_and_losses(
                [self.train[i] for i in places[first:first + size]])
            losses.mean().backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)
            adamw.step()
            schedule.step()
            adamw.zero_grad()
            print(f"step {step + 1}/{total}  loss {losses.mean().item():.6f}", flush=True)

    @torch.no_grad()
    def evaluate(self):
        right, loss = 0, 0.0
        for first in range(0, len(self.dev), 64):
            batch = self.dev[first:first + 64]
            logits, losses = self.logits_and_losses(batch)
            loss += losses.sum().item()
            if "labels" in self.data:
                right += (logits.argmax(1) == torch.tensor([r[2] for r in batch])).sum().item()
        if "labels" in self.data:
            print(f"accuracy {right / len(self.dev):.4f}")
        print(f"evalLoss {loss / len(self.dev):.6f}")


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    head = commands.add_parser("head")
    head.add_argument("model")
    head.add_argument("start")
    head.add_argument("--labels", type=int, required=True)
    train = commands.add_parser("train")
    train.add_argument("job")
    train.add_argument("start")
    train.add_argument("data")
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.command == "head":
        BertForSequenceClassification.from_pretrained(
            args.model, num_labels=args.labels).save_pretrained(args.start)
        vocab = (pathlib.Path(args.model) / "vocab.txt").read_bytes()
        (pathlib.Path(args.start) / "vocab.txt").write_bytes(vocab)
        return
    with open(args.job, encoding="utf-8") as f:
        task = Task(yaml.safe_load(f)["spec"], args.start, args.data)
    task.fit()
    task.evaluate()


if __name__ == "__main__":
    main()
