#!/usr/bin/env python3
"""Writes tests/golden/tokenizer/{cased,uncased}: what current transformers saves of a tokenizer.

Run by hand where transformers is installed; the tests only read the files. Each folder holds
tokenizer.json and tokenizer_config.json as save_pretrained() leaves them, and ids.txt with the
tokens of TEXT.
"""
import os
import tempfile

from transformers import BertTokenizer

TOKENS = "[PAD] [UNK] [CLS] [SEP] [MASK] the The cat ##s run ##ning , é e".split()
TEXT = "The cats, running é"

for name in ("cased", "uncased"):
    folder = os.path.join("tests/golden/tokenizer", name)
    with tempfile.TemporaryDirectory() as start:
        with open(os.path.join(start, "vocab.txt"), "w", encoding="utf-8") as f:
            f.write("\n".join(TOKENS) + "\n")
        tokenizer = BertTokenizer.from_pretrained(start, do_lower_case=name == "uncased")
    tokenizer.save_pretrained(folder)
    with open(os.path.join(folder, "ids.txt"), "w", encoding="utf-8") as f:
        f.write(" ".join(map(str, tokenizer(TEXT)["input_ids"])) + "\n")
