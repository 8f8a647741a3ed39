#!/usr/bin/env python3
"""Makes tests/golden/pretrained/: tiny models as transformers itself saves them.

Run it with torch and transformers installed: hack/gen-golden-pretrained.py
Every element is a function of its tensor's full name and its index, exact in bfloat16, so the
tests know it without a second file: tests/support/golden_model.h has the same function.
"""
import os
import shutil

import torch
from transformers import (BertConfig, BertForMaskedLM, BertForPreTraining,
                          BertForSequenceClassification, BertModel)

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "pretrained")
SIZES = dict(vocab_size=11, hidden_size=4, num_hidden_layers=1, num_attention_heads=2,
             intermediate_size=8, max_position_embeddings=6)


def fill(model, prefix=""):
    """Give every tensor the numbers that follow from its full name."""
    for name, tensor in model.named_parameters():
        if name == "cls.predictions.decoder.bias":
            name = "cls.predictions.bias"
        start = sum((prefix + name).encode())
        values = [((start + 7 * i) % 255 - 127) / 64 for i in range(tensor.numel())]
        with torch.no_grad():
            tensor.copy_(torch.tensor(values).reshape(tensor.shape))


def save(folder, model, dtype, **how):
    path = os.path.join(HERE, folder)
    shutil.rmtree(path, ignore_errors=True)
    model.to(dtype).save_pretrained(path, **how)
    for extra in ("generation_config.json",):
        if os.path.exists(os.path.join(path, extra)):
            os.remove(os.path.join(path, extra))


def main():
    classifier = BertForSequenceClassification(BertConfig(num_labels=3, **SIZES))
    fill(classifier)
    save("classifier", classifier, torch.float32)

    encoder = BertModel(BertConfig(**SIZES))
    fill(encoder, "bert.")
    save("encoder-f16", encoder, torch.float16)

    pretraining = BertForPreTraining(BertConfig(**SIZES))
    fill(pretraining)
    save("pretraining-bf16-shards", pretraining, torch.bfloat16, max_shard_size=400)

    masked = BertForMaskedLM(BertConfig(layer_norm_eps=1e-5, **SIZES))
    fill(masked)
    save("masked-lm", masked, torch.float32)


if __name__ == "__main__":
    main()
