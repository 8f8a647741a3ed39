#!/usr/bin/env python3
"""Write tests/golden/bert/: what PyTorch and transformers make of four small BERTs.

    pip install torch transformers safetensors && hack/gen-golden.py

One file a head, all numbers float32, of a reference computed in float64 with dropout 0:
  init.NAME          the weights it starts from (exact: rounded before they are used)
  batch.ids, .types  [all tokens] of STEPS batches, sequences end to end without padding
  batch.lengths      [STEPS * BATCH] tokens of each sequence
  batch.labels       [STEPS * BATCH] class, number, or 1 where the next sentence is a random one
  batch.masked       [all tokens] the word that a masked token was, else -1 (language models)
  out.sequence       [tokens of batch 0, C] the last layer's output
  out.logits         of batch 0: [BATCH, N], or [masked tokens, V]; out.next [BATCH, 2]
  grad.NAME          of batch 0's loss, not clipped
  adamw.losses, sgd.losses  [STEPS] each before its step
  adamw.NAME, sgd.NAME      the weights after STEPS steps
tests/unit/train/test_golden.c reads them and knows the constants below.
"""
import pathlib

import torch
import transformers
from safetensors.torch import save_file

STEPS = 20
BATCH = 8
VOCAB, HIDDEN, LAYERS, HEADS, FFN, POSITIONS = 61, 24, 2, 3, 48, 20
LABELS = 3
SHORTEST = 4
MASKED_SHARE = 0.3  # of tokens: enough of them in a small batch
MASK_ID = 4
DECAY, CLIP, WARMUP_STEPS = 0.1, 1.0, 5
ADAMW_RATE = 2e-3
SGD_RATE, MOMENTUM = 0.05, 0.9

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "bert"


def config(**more):
    return transformers.BertConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=FFN, max_position_embeddings=POSITIONS, hidden_act="gelu",
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, classifier_dropout=0.0,
        layer_norm_eps=1e-12, attn_implementation="eager", **more)


def parameters(model):
    """Every parameter once, under the names of a checkpoint: the decoder is the embeddings."""
    named = dict(model.named_parameters(remove_duplicate=False))
    tied = {"cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias"}
    for copy, name in tied.items():
        assert copy not in named or named.pop(copy) is named[name], copy
    return named


def randomize(named, generator):
    """Large enough that every gradient is well above rounding; biases and gains not at 0 and 1."""
    with torch.no_grad():
        for name, p in named.items():
            x = torch.randn(p.shape, generator=generator, dtype=torch.float64)
            if name.endswith("LayerNorm.weight"):
                x = 1.0 + 0.2 * x
            elif name.endswith("bias"):
                x = 0.1 * x
            else:
                x = (0.5 if "embeddings" in name else 0.2) * x
            p.copy_(x.float().double())


def batch_of(head, generator):
    """BATCH sequences of uneven lengths, padded as PyTorch wants them."""
    def integers(low, high, shape):
        return torch.randint(low, high, shape, generator=generator)

    lengths = integers(SHORTEST, POSITIONS + 1, (BATCH,))
    lengths[0] = POSITIONS
    real = torch.arange(POSITIONS)[None, :] < lengths[:, None]
    ids = integers(MASK_ID + 1, VOCAB, (BATCH, POSITIONS)) * real
    types = (torch.arange(POSITIONS)[None, :] >= (lengths // 2)[:, None]) & real
    masked = torch.full((BATCH, POSITIONS), -1)
    labels = integers(0, LABELS if head == "classifier" else 2, (BATCH,)).double()
    if head == "regression":
        labels = (5 * torch.rand(BATCH, generator=generator)).double()
    if head in ("maskedlm", "pretraining"):
        chosen = (torch.rand((BATCH, POSITIONS), generator=generator) < MASKED_SHARE) & real
        masked[chosen] = ids[chosen]
        ids[chosen] = MASK_ID
    return {"ids": ids, "types": types.long(), "real": real, "masked": masked, "lengths": lengths,
            "labels": labels.float().double()}


def run(model, head, batch):
    ignored = batch["masked"].masked_fill(batch["masked"] < 0, -100)
    labels = {"classifier": {"labels": batch["labels"].long()},
              "regression": {"labels": batch["labels"]},
              "maskedlm": {"labels": ignored},
              "pretraining": {"labels": ignored,
                              "next_sentence_label": batch["labels"].long()}}[head]
    return model(input_ids=batch["ids"], token_type_ids=batch["types"],
                 attention_mask=batch["real"].long(), output_hidden_states=True, **labels)


def trace(model, named, head, batches, make_optimizer):
    """Train from here; the losses, each before its step."""
    plain = [p for n, p in named.items() if n.endswith("bias") or "LayerNorm" in n]
    decayed = [p for n, p in named.items() if not (n.endswith("bias") or "LayerNorm" in n)]
    optimizer = make_optimizer([{"params": decayed, "weight_decay": DECAY},
                                {"params": plain, "weight_decay": 0.0}])
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, WARMUP_STEPS, STEPS)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = run(model, head, batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(named.values(), CLIP)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def first_batch(model, named, head, batch):
    """Outputs and gradients of the first batch."""
    out = run(model, head, batch)
    out.loss.backward()
    tensors = {"out.sequence": out.hidden_states[-1][batch["real"]]}
    if head in ("maskedlm", "pretraining"):
        logits = out.logits if head == "maskedlm" else out.prediction_logits
        tensors["out.logits"] = logits[batch["masked"] >= 0]
    else:
        tensors["out.logits"] = out.logits
    if head == "pretraining":
        tensors["out.next"] = out.seq_relationship_logits
    for name, p in named.items():
        tensors["grad." + name] = p.grad.clone()
    return tensors


def packed(batches):
    def tokens(key):
        return torch.cat([b[key][b["real"]] for b in batches])

    tensors = {"batch." + key: tokens(key) for key in ("ids", "types", "masked")}
    for key in ("lengths", "labels"):
        tensors["batch." + key] = torch.cat([b[key] for b in batches])
    return tensors


def golden(head, seed, model):
    generator = torch.Generator().manual_seed(seed)
    model = model.double().train()
    named = parameters(model)
    randomize(named, generator)
    start = {name: p.detach().clone() for name, p in named.items()}
    batches = [batch_of(head, generator) for _ in range(STEPS)]
    tensors = packed(batches) | {"init." + name: p for name, p in start.items()}
    tensors |= first_batch(model, named, head, batches[0])
    for optimizer, make in {
            "adamw": lambda groups: torch.optim.AdamW(groups, lr=ADAMW_RATE, eps=1e-8),
            "sgd": lambda groups: torch.optim.SGD(groups, lr=SGD_RATE, momentum=MOMENTUM)}.items():
        with torch.no_grad():
            for name, p in named.items():
                p.copy_(start[name])
        losses = trace(model, named, head, batches, make)
        print(f"{head} {optimizer}: loss {losses[0]:.4f} to {losses[-1]:.4f}")
        tensors[optimizer + ".losses"] = torch.tensor(losses)
        tensors |= {f"{optimizer}.{name}": p.detach().clone() for name, p in named.items()}
    save_file({name: t.detach().float().contiguous() for name, t in tensors.items()},
              OUT / f"{head}.safetensors",
              metadata={"made with": f"torch {torch.__version__.split('+')[0]}, "
                                     f"transformers {transformers.__version__}"})


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    golden("classifier", 1, transformers.BertForSequenceClassification(config(num_labels=LABELS)))
    golden("regression", 2, transformers.BertForSequenceClassification(
        config(num_labels=1, problem_type="regression")))
    golden("maskedlm", 3, transformers.BertForMaskedLM(config()))
    golden("pretraining", 4, transformers.BertForPreTraining(config()))


if __name__ == "__main__":
    main()
