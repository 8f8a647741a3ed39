"""The row `ddp` of sync.sh: the job that it writes for `even`, in PyTorch's DistributedDataParallel over gloo.

The same model, data, share of the batch for each replica, rate and schedule, dropout, clipping and evaluations; one
process with one thread for each replica, held to its CPU quota by the program that holds our workers. Batches are
padded to their longest sequence. Writes evaluations as a worker does, counted from when all are ready to train.
"""
import argparse
import csv
import functools
import json
import math
import os
import pathlib
import re
import subprocess
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn

LAYERS, HIDDEN, HEADS, VOCABULARY, POSITIONS = 2, 128, 2, 512, 64  # BertTiny, as in sync.sh
LABELS = ("contradiction", "entailment", "neutral")
DROPOUT, DECAY, WARMUP, MAX_NORM = 0.1, 0.01, 0.1, 1.0  # what a SkyJob has by default


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, HIDDEN)
        self.positions = nn.Embedding(POSITIONS, HIDDEN)
        self.types = nn.Embedding(2, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN, 1e-12)
        self.dropout = nn.Dropout(DROPOUT)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(HIDDEN, HEADS, 4 * HIDDEN, DROPOUT, "gelu", 1e-12, batch_first=True)
            for _ in range(LAYERS))
        self.pooler = nn.Linear(HIDDEN, HIDDEN)
        self.head = nn.Linear(HIDDEN, len(LABELS))
        for layer in self.layers:
            layer.dropout = nn.Identity()  # BERT has none between the two matrices
        for name, p in self.named_parameters():
            if p.ndim == 2:
                nn.init.normal_(p, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, tokens, types):
        x = self.words(tokens) + self.positions.weight[:tokens.shape[1]] + self.types(types)
        x = self.dropout(self.norm(x))
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=tokens == 0)
        return self.head(self.dropout(torch.tanh(self.pooler(x[:, 0]))))


class Data:
    def __init__(self, folder):
        lines = (folder / "vocab.txt").read_text().split("\n")
        self.ids = {piece: i for i, piece in enumerate(lines)}
        self.train, self.dev = (self.read(folder / f) for f in ("train.tsv", "dev_matched.tsv"))

    def read(self, path):
        with open(path, encoding="utf-8", newline="") as f:
            rows = csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE)
            return [(self.pieces(r["sentence1"]), self.pieces(r["sentence2"]), LABELS.index(r["gold_label"]))
                    for r in rows if r["gold_label"] in LABELS]

    def pieces(self, text):
        return [i for word in re.findall(r"\w+|[^\w\s]", text.lower()) for i in self.word(word)]

    @functools.lru_cache(None)
    def word(self, word):
        out, at = [], 0
        while at < len(word):
            for end in range(len(word), at, -1):
                piece = self.ids.get(("##" if at else "") + word[at:end])
                if piece is not None:
                    break
            else:
                return [self.ids["[UNK]"]]
            out.append(piece)
            at = end
        return out

    def batch(self, rows):
        tokens, types, labels = [], [], []
        for a, b, label in rows:
            a, b = a[:], b[:]
            while len(a) + len(b) > POSITIONS - 3:
                (a if len(a) > len(b) else b).pop()
            tokens.append([self.ids["[CLS]"], *a, self.ids["[SEP]"], *b, self.ids["[SEP]"]])
            types.append([0] * (len(a) + 2) + [1] * (len(b) + 1))
            labels.append(label)
        width = max(map(len, tokens))
        padded = lambda lists: torch.tensor([x + [0] * (width - len(x)) for x in lists])
        return padded(tokens), padded(types), torch.tensor(labels)


def optimizer_of(args, model):
    groups = [{"params": [p for p in model.parameters() if p.ndim == 2], "weight_decay": DECAY},
              {"params": [p for p in model.parameters() if p.ndim != 2], "weight_decay": 0.0}]
    if args.optimizer == "SGD":
        optimizer = torch.optim.SGD(groups, lr=args.rate, momentum=0.9, fused=True)
    else:
        optimizer = torch.optim.AdamW(groups, lr=args.rate, fused=True)
    warmup = math.ceil(WARMUP * args.steps)

    def rate(step):
        return step / warmup if step < warmup else (args.steps - step) / max(1, args.steps - warmup)

    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, rate)


@torch.no_grad()
def evaluate(model, data):
    right, loss = 0, 0.0
    model.eval()
    for first in range(0, len(data.dev), 64):
        tokens, types, labels = data.batch(data.dev[first:first + 64])
        logits = model(tokens, types)
        right += (logits.argmax(1) == labels).sum().item()
        loss += nn.functional.cross_entropy(logits, labels, reduction="sum").item()
    model.train()
    return {"accuracy": right / len(data.dev), "evalLoss": loss / len(data.dev)}


def train(rank, args, data):
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    n = len(args.cpu_milli)
    dist.init_process_group("gloo", init_method=f"file://{args.output}/meeting", rank=rank, world_size=n)
    model = nn.parallel.DistributedDataParallel(Bert(), gradient_as_bucket_view=True)
    optimizer, schedule = optimizer_of(args, model)
    epochs = math.ceil(args.steps * args.batch * n / len(data.train))
    order = torch.cat([torch.randperm(len(data.train)) for _ in range(epochs)])  # alike in all
    torch.manual_seed(args.seed * n + rank)  # dropout is not
    if args.cpu_milli[rank] < 1000:
        subprocess.Popen([args.throttle, str(os.getpid()), str(args.cpu_milli[rank])])
    dist.barrier()
    start = time.monotonic()
    for step in range(args.steps):
        first = (step * n + rank) * args.batch
        tokens, types, labels = data.batch([data.train[i] for i in order[first:first + args.batch].tolist()])
        nn.functional.cross_entropy(model(tokens, types), labels).backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if (step + 1) % args.every == 0 or step + 1 == args.steps:
            if rank == 0:
                metrics = evaluate(model.module, data)
                with open(args.output / "history.jsonl", "a", encoding="utf-8") as f:
                    print(json.dumps({"step": step + 1, "seconds": time.monotonic() - start, "metrics": metrics}), file=f)
            dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    for name, kind in {"data": pathlib.Path, "output": pathlib.Path, "throttle": str, "optimizer": str, "rate": float,
                       "batch": int, "steps": int, "every": int, "seed": int}.items():
        parser.add_argument("--" + name, type=kind, required=True)
    parser.add_argument("--workers", required=True, help="cpu=C,... as kubectl-skyjob run takes it")
    args = parser.parse_args()
    args.cpu_milli = [round(1000 * float(w.removeprefix("cpu="))) for w in args.workers.split(",")]
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.multiprocessing.start_processes(train, (args, Data(args.data)), len(args.cpu_milli), start_method="fork")


if __name__ == "__main__":
    main()
