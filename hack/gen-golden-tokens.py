#!/usr/bin/env python3
"""Golden tokens for tests/unit/text/test_wordpiece.c: what BERT's reference tokenizer gives.

    hack/gen-golden-tokens.py generate          write the lines, their hashes and the vocabulary
    hack/gen-golden-tokens.py check             recompute the committed hashes with this Python
    hack/gen-golden-tokens.py show N            the reference's tokens of line N
    hack/gen-golden-tokens.py compare           count the lines that Hugging Face's `tokenizers`
                                                reads otherwise (pip install tokenizers)

The reference is the algorithm that google-research/bert published as tokenization.py, restated here
over Python's Unicode tables; wordpiece.h lists how others differ. Only `generate` needs one
Python, 3.11 (Unicode 14.0): its lines have code points that are assigned there or never will be, so
later tables, Python's and utf8proc's, give the same tokens.

golden_tokens.txt has one line per case: the hash of the tokens (joined by spaces) uncased, the same
cased, and the text, where \\{hex} stands for what cannot be seen. Every character that lower-cases,
decomposes, is punctuation, a space, a mark or a control occurs at least once.
"""
import random
import sys
import unicodedata
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "tests/unit/text"
LINES = FOLDER / "golden_tokens.txt"
VOCAB = FOLDER / "golden_vocab.txt"
N_LINES = 10_000
WORD_MAX = 100
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

# --- the reference ---

IDEOGRAPHS = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
              (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]


def category(c):
    return unicodedata.category(c)


def is_punctuation(c):
    return (c.isascii() and c.isprintable() and not c.isalnum() and c != " "
            or category(c)[0] == "P")


def is_ideograph(c):
    return any(first <= ord(c) <= last for first, last in IDEOGRAPHS)


def clean(text):
    for c in text:
        if c in "\t\n\r" or category(c) == "Zs":
            yield " "
        elif is_ideograph(c):
            yield f" {c} "
        elif c not in "\0\ufffd" and category(c) not in ("Cc", "Cf"):
            yield c


def words(text, cased):
    for word in "".join(clean(text)).split():
        if not cased:
            word = unicodedata.normalize("NFD", word.lower())
            word = "".join(c for c in word if category(c) != "Mn")
        # A punctuation mark is a word by itself.
        yield from "".join(f" {c} " if is_punctuation(c) else c for c in word).split(" ")


def pieces(word, vocab):
    found, at = [], 0
    while at < len(word):
        for end in range(len(word), at, -1):
            piece = ("##" if at else "") + word[at:end]
            if piece in vocab:
                break
        else:
            return ["[UNK]"]
        found.append(piece)
        at = end
    return found


def tokens(text, cased, vocab):
    out = []
    for word in words(text, cased):
        out += ["[UNK]"] if len(word) > WORD_MAX else pieces(word, vocab)
    return out


# --- the files ---

def fold(tokens_of_a_line):
    """FNV-1a of 64 bits, folded to 32."""
    h = 0xCBF29CE484222325
    for byte in " ".join(tokens_of_a_line).encode():
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return f"{h >> 32 ^ h & 0xFFFFFFFF:08x}"


def escape(text):
    return "".join(f"\\{{{ord(c):x}}}" if c == "\\" or category(c)[0] in "CZ" and c != " " else c
                   for c in text)


def unescape(text):
    first, *rest = text.split("\\{")
    return first + "".join(chr(int(code, 16)) + tail
                           for code, tail in (part.split("}", 1) for part in rest))


def read_vocab():
    return VOCAB.read_text(encoding="utf-8").split("\n")[:-1]


def read_lines():
    for line in LINES.read_text(encoding="utf-8").split("\n")[:-1]:
        uncased, cased, text = line.split(" ", 2)
        yield uncased, cased, unescape(text)


# --- the lines ---

LEXICON = """the of and to in is that it was for on with as by at from river stone winter engine
market silver teacher garden bridge letter morning station traveller window kitchen mountain
running walked unbelievable reopened naturally sunlight shipbuilding untie hopefulness""".split()
ACCENTED = """café naïve Zürich Ångström façade Čapek Łódź São coöperate İstanbul ıssız Straße GROẞ
Đặng Nguyễn Việt résumé Ἀθῆναι ΐ ǰazz ŉ ſoft Ǆ ǅ ﬁne oﬃce Ǖ Ṩ ǭ Ệ ά K Å Ω ЙОД ёлка Ѷ""".split()
ODD_TEXT = """[SEP] [CLS] [MASK] [UNK] [PAD] ##ing ## [sep] [MASK]ed don't U.S.A. 3.14 1,000,000
$5.00 a@b.org https://x.y/z?q=1&r=%20 C++ #tag x=y^2 ~/.bashrc <b>bold</b> {k:v} `code` |pipe|
snake_case e-mail AT&T 50% (see) "quoted" - -- ... wow!!! 10:30 \\n \\{41} !@#$%^&*()_+""".split()
EMOJI = ["\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u2764\ufe0f", "\U0001f1e9\U0001f1ea",
         "\U0001f44d\U0001f3fd", "1\ufe0f\u20e3", "\U0001f3f4\U000e0067\U000e0062\U000e007f", "☺"]
BLOCKS = [(0x370, 0x3FF), (0x400, 0x52F), (0x531, 0x556), (0x5D0, 0x5EA), (0x620, 0x64A),
          (0x900, 0x97F), (0xE01, 0xE3A), (0x10A0, 0x10FF), (0x13A0, 0x13FD), (0x1100, 0x11FF),
          (0x1780, 0x17DD), (0x1200, 0x1248), (0x1E00, 0x1EFF), (0x1F00, 0x1FFE), (0x2160, 0x217F),
          (0x24B6, 0x24E9), (0x2C00, 0x2CE4), (0x3041, 0x30FF), (0xA640, 0xA66D), (0xAC00, 0xD7A3),
          (0xFB00, 0xFB06), (0xFF01, 0xFF9D), (0x10400, 0x1044F), (0x1D400, 0x1D7FF),
          (0x1E900, 0x1E943), (0x1D15E, 0x1D182)]
INVISIBLE = [0, 1, 7, 8, 0xB, 0xC, 0x1B, 0x1C, 0x1F, 0x7F, 0x85, 0x9F, 0xAD, 0x61C, 0x180E, 0x200B,
             0x200C, 0x200D, 0x200E, 0x200F, 0x202A, 0x202B, 0x202C, 0x202D, 0x202E, 0x2060, 0x2066,
             0x2067, 0x2068, 0x2069, 0xFEFF, 0xFFF9, 0xFFFB, 0xFFFD, 0xE0001, 0xE0020, 0xE007F]
SPACES = [9, 10, 13, 0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F,
          0x3000]
# Private use, what can never be a character, and the neighbours of the surrogates.
NOWHERE = [0xD7FB, 0xE000, 0xF8FF, 0xFDD0, 0xFFFE, 0xFFFF, 0x1FFFE, 0xF0000, 0x10FFFD, 0x10FFFF]
MARKS = [0x300, 0x301, 0x302, 0x303, 0x307, 0x308, 0x30C, 0x316, 0x323, 0x327, 0x328, 0x345, 0x334,
         0x5B0, 0x64B, 0x651, 0x94D, 0x302E, 0x3099, 0x20DD, 0x20E3, 0x903, 0x1D165, 0x16FF0, 0xE31]
EDGES = [code + step for edge in IDEOGRAPHS for code, step in ((edge[0], 0), (edge[1], 0),
                                                               (edge[0], -1), (edge[1], 1))]


def is_assigned(code):
    return not 0xD800 <= code <= 0xDFFF and category(chr(code)) != "Cn"


def is_special(code):
    c = chr(code)
    return is_assigned(code) and (
        category(c)[0] in "PMZ" or category(c) in ("Cc", "Cf", "Lm", "Sk", "Lt") or c.lower() != c
        or unicodedata.decomposition(c)[:1] not in ("", "<")) and not 0xAC00 <= code <= 0xD7A3


class Writer:
    """Each method makes one kind of line; `draw` deals every special character in turn."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.deck = [chr(code) for code in range(0x110000) if is_special(code)]
        self.random.shuffle(self.deck)
        self.blocks = [[c for c in map(chr, range(first, last + 1)) if is_assigned(ord(c))]
                       for first, last in BLOCKS]
        self.n_dealt = 0
        kinds = [(14, self.ordinary), (10, self.accents), (8, self.marks), (10, self.scripts),
                 (8, self.ideographs), (9, self.hidden), (6, self.spaces), (4, self.emoji),
                 (8, self.odd), (1, self.long), (5, self.sigma), (2, self.nothing),
                 (13, self.dealt), (2, self.nowhere)]
        self.kinds = [kind for weight, kind in kinds for _ in range(weight)]

    def line(self):
        return self.pick(self.kinds)()

    def pick(self, choices):
        return self.random.choice(choices)

    def some(self, low, high, make):
        return [make() for _ in range(self.random.randint(low, high))]

    def draw(self):
        self.n_dealt += 1
        return self.deck[self.n_dealt % len(self.deck)]

    def code(self, codes):
        return chr(self.pick(codes))

    def word(self):
        return self.pick([str.lower, str.lower, str.capitalize, str.upper])(self.pick(LEXICON))

    def ordinary(self):
        text = self.some(2, 6, self.word)
        if self.random.random() < 0.3:
            text.append(str(self.random.randint(0, 99999)))
        return " ".join(text) + self.pick([".", "", "?", ", ", "'s"])

    def accents(self):
        form = self.pick(["NFC", "NFD", "NFC", "NFKC", "NFKD"])
        case = self.pick([str, str.upper, str.lower, str.title])
        return unicodedata.normalize(form, case(" ".join(
            self.some(1, 3, lambda: self.pick(ACCENTED)))))

    def marks(self):
        return "".join(self.some(1, 3, lambda: self.pick("aEo가Ωй1-") + "".join(
            self.some(0, 5, lambda: self.code(MARKS) if self.random.random() < 0.6
                      else self.draw()))))

    def scripts(self):
        block = self.pick(self.blocks)
        return " ".join("".join(self.some(1, 6, lambda: self.pick(block)))
                        for _ in range(self.random.randint(1, 3)))

    def ideographs(self):
        edges = [code for code in EDGES if is_assigned(code)]
        ranges = self.pick(IDEOGRAPHS)
        return "".join(self.some(2, 6, lambda: self.pick([
            self.code(edges), self.pick("一国中文語ア한a1。・"),
            chr(self.pick([c for c in range(ranges[0], ranges[0] + 300) if is_assigned(c)]))])))

    def hidden(self):
        text = list(self.word() + " " + self.word())
        for _ in range(self.random.randint(1, 4)):
            text.insert(self.random.randint(0, len(text)), self.code(INVISIBLE))
        return "".join(text)

    def spaces(self):
        return "".join(self.some(1, 4, lambda: self.word() + self.code(SPACES) * self.pick([1, 2])))

    def emoji(self):
        return "".join(self.some(1, 4, lambda: self.pick(
            [self.pick(EMOJI), " ", self.word(), self.code(range(0x1F300, 0x1F5FF))])))

    def odd(self):
        return self.pick([" ", "", " "]).join(self.some(1, 4, lambda: self.pick(
            [self.pick(ODD_TEXT), self.pick(ODD_TEXT), self.word(), self.draw()])))

    def long(self):
        """Around the limit of a word, which counts characters once accents are gone."""
        unit = self.pick(["a", "é", "e\u0301", "한", "-", "日", "\U00010400", "ab\u200b"])
        return unit * self.pick([33, 34, 49, 50, 51, 98, 99, 100, 101]) + self.word()[:2]

    def sigma(self):
        """Whether a capital sigma is final depends on what stands around it."""
        return "".join(self.some(3, 8, lambda: self.pick(
            ["Σ", "Σ", "Σ", "Α", "ς", "σ", "'", ".", ":", "·", " ", "1", "ʰ", "\u0301", "\u00ad",
             "\u200d", "ª", "Ⅷ", "Ⓐ", "\u0345", "中", "’", "-", "\x01", "^", "\ufffd",
             self.draw()])))

    def nothing(self):
        return "".join(self.some(0, 5, lambda: self.code(INVISIBLE + SPACES)))

    def dealt(self):
        return "".join(self.some(2, 7, lambda: self.pick([self.draw(), self.draw(), self.draw(),
                                                          "a", "Z", " "])))

    def nowhere(self):
        return "".join(self.some(1, 4, lambda: self.pick([self.code(NOWHERE), self.word()[:2]])))


def make_vocab(texts, rnd):
    """All characters and some longer pieces of the words; a few are missing, for [UNK]."""
    found = set()
    for text in texts:
        for cased in (False, True):
            for word in words(text, cased):
                found.update(("##" if at else "") + c for at, c in enumerate(word[:WORD_MAX + 1]))
                if len(word) > 3 and rnd.random() < 0.05:
                    cut = rnd.randint(1, len(word) - 1)
                    found.update((word[:cut][:20], "##" + word[cut:][:20]))
    return SPECIALS + [token for token in sorted(found) if rnd.random() > 0.02]


# --- the commands ---

def generate():
    if unicodedata.unidata_version != "14.0.0":
        sys.exit("generate needs Python 3.11: its tables are Unicode 14.0")
    writer = Writer("golden tokens")
    texts = [writer.line() for _ in range(N_LINES)]
    if writer.n_dealt < len(writer.deck):
        sys.exit(f"only {writer.n_dealt} of {len(writer.deck)} special characters occur")
    vocab = make_vocab(texts, writer.random)
    known = set(vocab)
    VOCAB.write_text("".join(f"{token}\n" for token in vocab), encoding="utf-8")
    LINES.write_text("".join(
        f"{fold(tokens(text, False, known))} {fold(tokens(text, True, known))} {escape(text)}\n"
        for text in texts), encoding="utf-8")


def check():
    known = set(read_vocab())
    bad = [n for n, (uncased, cased, text) in enumerate(read_lines(), 1)
           if fold(tokens(text, False, known)) != uncased
           or fold(tokens(text, True, known)) != cased]
    print(f"Unicode {unicodedata.unidata_version}: {len(bad)} lines differ", *bad[:20])
    return 1 if bad else 0


def show(n):
    text = list(read_lines())[n - 1][2]
    print(escape(text))
    for name, cased in ("uncased", False), ("cased", True):
        print(f"{name}: {escape(' '.join(tokens(text, cased, set(read_vocab()))))}")


def cause(text, cased):
    """The first known reason for Hugging Face's tokens to differ."""
    if any(category(c) == "Co" for c in text):
        return "private use characters are dropped"
    if any(0x2B820 <= ord(c) < 0x2B920 for c in text):
        return "256 ideographs are missing from its ranges"
    if "Σ" in text and not cased:
        return "no final sigma"
    return "older Unicode tables"


def compare():
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    ours = read_vocab()
    for name, cased in ("uncased", False), ("cased", True):
        theirs = Tokenizer(models.WordPiece({token: i for i, token in enumerate(ours)},
                                            unk_token="[UNK]"))
        theirs.normalizer = normalizers.BertNormalizer(lowercase=not cased)
        theirs.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        causes = [cause(text, cased) for _, _, text in read_lines()
                  if theirs.encode(text, add_special_tokens=False).tokens
                  != tokens(text, cased, set(ours))]
        print(f"{name}: {len(causes)} of {N_LINES} lines differ:",
              {reason: causes.count(reason) for reason in sorted(set(causes))})


COMMANDS = {"generate": generate, "check": check, "compare": compare}
if len(sys.argv) == 3 and sys.argv[1] == "show":
    show(int(sys.argv[2]))
elif len(sys.argv) == 2 and sys.argv[1] in COMMANDS:
    sys.exit(COMMANDS[sys.argv[1]]())
else:
    sys.exit(__doc__)
