#!/usr/bin/env python3
"""Makes tests/unit/data/golden_truncate.h: how Hugging Face's tokenizers shorten a pair.

Run it with tokenizers installed: hack/gen-golden-truncate.py > tests/unit/data/golden_truncate.h
kept[length][a - 1][b - 1] holds the tokens that are left of the first sentence, of `a`, and of the
second, of `b`, when the pair is cut to `length` tokens with "longest_first".
"""
from tokenizers import Tokenizer, models, pre_tokenizers, processors

LENGTHS = (10, 11)
MOST = 12

tokenizer = Tokenizer(models.WordPiece({"[CLS]": 0, "[SEP]": 1, "[UNK]": 2, "a": 3, "b": 4},
                                       unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
tokenizer.post_processor = processors.BertProcessing(("[SEP]", 1), ("[CLS]", 0))

print("/* Made by hack/gen-golden-truncate.py; do not edit. */\n")
print("/* clang-format off */")
print(f"static const int lengths[] = {{{', '.join(map(str, LENGTHS))}}};")
print(f"static const int kept[{len(LENGTHS)}][{MOST}][{MOST}][2] = {{")
for length in LENGTHS:
    tokenizer.enable_truncation(length, strategy="longest_first")
    print("    {")
    for a in range(1, MOST + 1):
        row = []
        for b in range(1, MOST + 1):
            ids = tokenizer.encode("a " * a, "b " * b).ids
            row.append(f"{{{ids.count(3)}, {ids.count(4)}}}")
        print("        {" + ", ".join(row) + "},")
    print("    },")
print("};")
print("/* clang-format on */")
