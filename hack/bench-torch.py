#!/usr/bin/env python3
"""PyTorch's training step beside ours, on the same core in the same run.

    hack/bench-torch.py --install   first: PyTorch and transformers into build/torch (5 GB)
    hack/bench-torch.py             then, after `make bench` has built the benchmark once

Both sides train the same BERT: forward, backward, AdamW, gradient norm clipped, dropout 0.1, fp32,
one core, and take their best CPU time of some rounds in turn, so neighbours on a shared machine
count for little. PyTorch is measured as it is installed ("stock") and at its best: AdamW fused and,
on a processor where MKL leaves its AVX-512 kernels aside although it has AVX-512 (AMD's), with them
forced by a preloaded library that answers MKL's question for the maker. Cases in bf16 are autocast
beside training.precision BF16. At MNLI's lengths PyTorch pads, to 128 and to the longest of the
batch; tokens are counted without padding on both sides.
Nothing here is part of the tests.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRATCH = ROOT / "build" / "torch"
PYTHON = SCRATCH / "bin" / "python"
OURS = ROOT / "build" / "release" / "tests" / "bench" / "bench_step"
OURS_BF16 = OURS.with_name("bench_precision")
PRELOAD = SCRATCH / "mkl_avx512.so"
LENGTH = 128
SIZES = {  # hidden, layers, heads, feed-forward
    "BertMini": (256, 4, 4, 1024),
    "BertBase": (768, 12, 12, 3072),
    "BertLarge": (1024, 24, 16, 4096),
}
CASES = {  # as in tests/bench/bench_step.c: preset, sequences of a batch, how PyTorch pads
    "BertMini.128": ("BertMini", 32, ["full"]),
    "BertMini.mix": ("BertMini", 32, ["128", "longest"]),
    "BertBase.128": ("BertBase", 8, ["full"]),
    "BertBase.mix": ("BertBase", 32, ["128", "longest"]),
    "BertLarge.128": ("BertLarge", 8, ["full"]),
    "BertMini.128.bf16": ("BertMini", 32, ["full"]),
    "BertBase.128.bf16": ("BertBase", 8, ["full"]),
}


def mix():
    """The lengths of tests/bench/step.c, from there."""
    text = (ROOT / "tests" / "bench" / "step.c").read_text()
    return [int(n) for n in re.search(r"mix\[MIX_LENGTHS\] = \{([^}]*)\}", text)[1].split(",")]


def install():
    subprocess.run([sys.executable, "-m", "venv", SCRATCH], check=True)
    subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "torch", "transformers"], check=True)
    source = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", PRELOAD, "-x", "c", "-"], input=source.encode(),
                   check=True)


def torch_step(case, padding, is_best, rounds):
    """In a process of its own: tokens a second, CPU time, the best of `rounds`."""
    import torch
    import transformers

    preset, n_seqs, _ = CASES[case]
    hidden, layers, heads, ffn = SIZES[preset]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = transformers.BertForSequenceClassification(transformers.BertConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=ffn, num_labels=3)).train()
    lengths = [LENGTH] * n_seqs if padding == "full" else (mix() * n_seqs)[:n_seqs]
    width = max(lengths) if padding == "longest" else LENGTH
    batch = {
        "input_ids": torch.randint(0, 30522, (n_seqs, width)),
        "labels": torch.zeros(n_seqs, dtype=torch.long),
    }
    if padding != "full":
        batch["attention_mask"] = (torch.arange(width)[None] < torch.tensor(lengths)[:, None]).long()
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-5, **({"fused": True} if is_best else {}))

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=case.endswith(".bf16")):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
        adamw.zero_grad()

    step()
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        step()
        best = min(best, time.process_time() - start)
    return sum(lengths) / best


def run(command, env):
    """What a program prints, and the most memory it had resident, in MiB."""
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(map(str, command))}: failed; run it by hand to see why")
    return text, usage.ru_maxrss / 1024


def ask_torch(case, padding, is_best, rounds):
    env = dict(os.environ, OMP_NUM_THREADS="1")
    if is_best:
        env["LD_PRELOAD"] = str(PRELOAD)
        env["MKL_ENABLE_INSTRUCTIONS"] = "AVX512"
    text, resident = run([PYTHON, __file__, "--torch", case, padding, str(int(is_best)),
                          str(rounds)], env)
    return float(text.split()[-1]), resident


def ask_ours(case):
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    is_bf16 = case.endswith(".bf16")
    text, resident = run([OURS_BF16 if is_bf16 else OURS, case.removesuffix(".bf16")], env)
    rows = [json.loads(line) for line in text.splitlines()]
    speed = next(r["value"] for r in rows if r["name"].endswith(".speed"))
    return speed, resident, rows[0]["cpu"]


def compare(case, rounds):
    for padding in CASES[case][2]:
        ours, our_mib, cpu = ask_ours(case)
        stock, _ = ask_torch(case, padding, False, rounds)
        best, its_mib = ask_torch(case, padding, True, rounds)
        ours = max(ours, ask_ours(case)[0])
        print(f"{case:14} {padding:8} {ours:9.0f} {best:9.0f} {stock:9.0f} {ours / best:8.2f}x "
              f"{ours / stock:8.2f}x {our_mib:9.0f} {its_mib:9.0f} {our_mib / its_mib:6.2f}x   {cpu}",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--install", action="store_true", help="install PyTorch into build/torch")
    parser.add_argument("--torch", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("case", nargs="*", help=", ".join(CASES))
    args = parser.parse_args()
    if args.install:
        install()
        return
    if args.torch:
        case, padding, is_best, rounds = args.torch
        print(torch_step(case, padding, bool(int(is_best)), int(rounds)))
        return
    for needed in (PYTHON, PRELOAD, OURS):
        if not needed.exists():
            sys.exit(f"{needed} is missing: see --help")
    print(f"{'useful tokens/s':14} {'padding':8} {'ours':>8} {'its best':>9} {'stock':>9} "
          f"{'vs best':>9} {'vs stock':>9} {'our MiB':>9} {'its MiB':>9}   CPU")
    for case in args.case or CASES:
        if case not in CASES:
            sys.exit(f"{case}: not one of {', '.join(CASES)}")
        compare(case, args.rounds)


if __name__ == "__main__":
    main()
