#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""make-pre.py LIBLLAMA NAME...: what llama.cpp makes of hard texts with each pre-tokenizer NAME.

Writes pre/hard.json (the texts), pre/names.tsv (NAME, then the golden of its kind) and
pre/GOLDEN.ids (ids of the first 100 texts, a hash of those of each other one). LIBLLAMA is the
path of a libllama.so. Run it only after a change.

The vocabulary is made for it: all bytes, and all pairs of bytes that text can have, whose merges
come in an order without any system, so that a word cut elsewhere becomes other tokens. The test
builds the same one (test-pretokenizer.c)."""

import ctypes
import json
import pathlib
import random
import struct
import sys
import tempfile
import unicodedata

HERE = pathlib.Path(__file__).parent
DELIMITER = b"\n__ggml_vocab_test__\n"
N_TEXTS = 2400
N_SHOWN = 100
NORMAL, BYTE = 1, 6
MARK = "\u2581"


def make_byte_chars():
    chars, following = [], 0x100
    for byte in range(256):
        if 0x20 < byte < 0x7f or 0xa0 < byte != 0xad:
            chars.append(chr(byte))
        else:
            chars.append(chr(following))
            following += 1
    return chars


def make_vocabulary():
    chars = make_byte_chars()
    pairs = [divmod(i * 40503 + 12345 & 0xffff, 256) for i in range(1 << 16)]
    pairs = [(chars[left], chars[right]) for left, right in pairs]
    pairs += [(MARK, chars[byte]) for byte in range(ord("a"), ord("z") + 1)]
    tokens = chars + [MARK] + [left + right for left, right in pairs]
    kinds = [NORMAL] * len(tokens) + [BYTE] * 256
    tokens += [f"<0x{byte:02X}>" for byte in range(256)]
    return tokens, kinds, [f"{left} {right}" for left, right in pairs]


def write_vocabulary(path, pre):
    def text(value):
        raw = value.encode()
        return struct.pack("<Q", len(raw)) + raw

    def entry(key, kind, value):
        return text(key) + struct.pack("<I", kind) + value

    def strings(values):
        return struct.pack("<IQ", 8, len(values)) + b"".join(map(text, values))

    tokens, kinds, merges = make_vocabulary()
    entries = [
        entry("general.architecture", 8, text("llama")),
        entry("tokenizer.ggml.model", 8, text("gpt2")),
        entry("tokenizer.ggml.pre", 8, text(pre)),
        entry("tokenizer.ggml.tokens", 9, strings(tokens)),
        entry("tokenizer.ggml.token_type", 9,
              struct.pack(f"<IQ{len(kinds)}i", 5, len(kinds), *kinds)),
        entry("tokenizer.ggml.merges", 9, strings(merges)),
        entry("tokenizer.ggml.add_bos_token", 7, b"\0"),
    ]
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries))


# Beginnings and ends of stretches of letters, marks, digits and symbols of many scripts.
SCRIPTS = [
    (0x41, 0x5a), (0x61, 0x7a), (0xc0, 0x17f), (0x180, 0x24f), (0x250, 0x2af), (0x2b0, 0x2ff),
    (0x300, 0x36f), (0x370, 0x3ff), (0x400, 0x52f), (0x531, 0x58f), (0x591, 0x5f4), (0x600, 0x6ff),
    (0x700, 0x74f), (0x780, 0x7b1), (0x900, 0x97f), (0x980, 0x9fb), (0xa01, 0xa76), (0xa81, 0xaf1),
    (0xb01, 0xb77), (0xb82, 0xbfa), (0xc00, 0xc7f), (0xc80, 0xcf2), (0xd00, 0xd7f), (0xd81, 0xdf4),
    (0xe01, 0xe5b), (0xe81, 0xedf), (0xf00, 0xfda), (0x1000, 0x109f), (0x10a0, 0x10ff),
    (0x1100, 0x11ff), (0x1200, 0x137c), (0x13a0, 0x13fd), (0x1400, 0x167f), (0x1780, 0x17f9),
    (0x1800, 0x18aa), (0x1c90, 0x1cbf), (0x1e00, 0x1eff), (0x1f00, 0x1ffe), (0x2000, 0x206f),
    (0x2070, 0x209c), (0x20a0, 0x20c0), (0x2100, 0x218b), (0x2190, 0x22ff), (0x2460, 0x24ff),
    (0x2500, 0x27bf), (0x2c00, 0x2c7f), (0x2c80, 0x2cff), (0x2d00, 0x2d2d), (0x2e80, 0x2fdf),
    (0x3000, 0x303f), (0x3041, 0x309f), (0x30a0, 0x30ff), (0x3105, 0x312f), (0x3131, 0x318e),
    (0x3200, 0x33ff), (0x3400, 0x3480), (0x4e00, 0x4eff), (0x9f80, 0x9fff), (0xa000, 0xa0ff),
    (0xa640, 0xa69f), (0xa720, 0xa7ca), (0xaa60, 0xaa7f), (0xab30, 0xab6b), (0xac00, 0xacff),
    (0xd780, 0xd7fb), (0xf900, 0xf940), (0xfb00, 0xfb4f), (0xfe20, 0xfe4f), (0xff01, 0xffee),
    (0x10400, 0x1049f), (0x10570, 0x105bc), (0x16e40, 0x16e7f), (0x1d400, 0x1d7ff),
    (0x1f100, 0x1f1ff), (0x1f300, 0x1f64f), (0x1f680, 0x1f6d7), (0x20000, 0x20040),
    (0x2a6d0, 0x2a740), (0x2f800, 0x2f840),
]
SPACES = ["\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000",
          "\u180e", "\u200b", "\ufeff", "\t", "\v", "\f", "\x1c"]
PIECES = [
    "'s", "'S", "'t", "'re", "'RE", "'ve", "'m", "'ll", "'LL", "'d", "'x", "\u2019s", "'\u017f",
    " don't", " WE'RE", " I'm", "O'Neill", "camelCase", "HTTPServer", "XMLHttpRequest2", "snake_case",
    "iPhone", "McDonald", "\u00c9cole\u00c9COLE", "\u00e9t\u00e9\u00c9t\u00e9", "a\u0301e\u0301 A\u0301B", "\u0130\u0131\u01c5",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f", "\u263a",
    "1234567", "12", "1,000,000.00", "3.14e-10", "0xDEADBEEF", "\u0663\u0664\u0665\u0666", "\u00bd\u00b2\u2167", "2024-11-28",
    "12345 678", "v1.2.3", "1st", "x2y3", "99\u00b2", "\uff11\uff12\uff13\uff14", "IMGIMGABZ", "<sentinel:12>",
    "<|im_start|>", "<|endoftext|>", "<s>", "</s>", "[INST]", "<think>", "<0x0A>", "\u2581", "\u2581\u2581",
    "for (int i = 0; i < n; i++) {\n\t\tx[i] += y * (z - 1);\n\t}\n", "if a != b:\n    return None\n",
    "def f(x):\n\treturn x**2 // 3\n", "#include <stdio.h>\n", "$HOME/.config", "https://a.b/c?d=e&f=g#h",
    "a@b.org", "C:\\dir\\file.txt", "\\n\\t", "\"quoted\"", "`code`", "**bold**", "~~x~~", "|a|b|", "==>", "->",
    "...", "!!!", "?!", "(((", ")))", "[[x]]", "{{y}}", "//", "/*", "*/", "\n/", "/\n", "--", "\u2014", "\u2026", "\u201cq\u201d",
    "\u3002", "\uff0c", "\u3001", "\uff01", "\uff1f", "\u0964", "\u06d4", "\u060c", "$", "+", "<", "=", ">", "^", "`", "|", "~", "\u20ac", "\u00a3", "\u00b0", "\u00b5",
    " ", "  ", "    ", "       ", "\n", "\n\n", "\n\n\n", "\r\n", "\r", "\r\n\r\n", "\t", "\t\t", " \n", "\n ",
    "  \n  \n", "\t\n", " \t ", "\u4e2d\u6587", "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8", "\ud55c\uad6d\uc5b4", "\u3007\u3005", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0939\u093f\u0928\u094d\u0926\u0940",
    "\u0645\u0631\u062d\u0628\u0627", "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd", "\u041f\u0440\u0438\u0432\u0435\u0442", "\u1014\u102d\u102f\u1004\u103a", "word", " word", "Word", " WORD", "a", " b", "I",
]


def make_run(chooser):
    kind = chooser.random()
    if kind < 0.5:
        return chooser.choice(PIECES)
    if kind < 0.85:
        first, last = chooser.choice(SCRIPTS)
        run = [chr(chooser.randint(first, last)) for _ in range(chooser.randint(1, 6))]
        # Unassigned ones are left out: implementations differ in which those are.
        run = [c for c in run if unicodedata.category(c) != "Cn"]
        return "".join(run)
    if kind < 0.93:
        return chooser.choice(SPACES) * chooser.randint(1, 3)
    return "".join(chooser.choice("0123456789") for _ in range(chooser.randint(1, 11)))


def make_texts():
    chooser = random.Random(1)
    texts = []
    for name in "common.inp", "more.inp":
        texts += [text.decode() for text in (HERE / name).read_bytes().split(DELIMITER)
                  if b"\0" not in text]
    texts += [" " * 600 + "x", "x" + "\n" * 70, "\t" * 300 + "\n" + " " * 1100, "A" * 300, "7" * 100]
    while len(texts) < N_TEXTS:
        texts.append("".join(make_run(chooser) for _ in range(chooser.randint(1, 12))))
    return texts


class Params(ctypes.Structure):
    """llama_model_params of November 2026."""
    _fields_ = [("devices", ctypes.c_void_p), ("buffers", ctypes.c_void_p),
                ("numbers", ctypes.c_int32 * 5), ("split", ctypes.c_void_p),
                ("progress", ctypes.c_void_p), ("progress_data", ctypes.c_void_p),
                ("overrides", ctypes.c_void_p), ("vocab_only", ctypes.c_bool),
                ("flags", ctypes.c_bool * 7)]


class Peer:
    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        for name, kind in ("llama_model_load_from_file", ctypes.c_void_p), \
                          ("llama_model_get_vocab", ctypes.c_void_p):
            getattr(self.library, name).restype = kind
        self.log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(
            lambda *args: None)
        self.library.llama_log_set(self.log, None)
        self.library.llama_backend_init()

    def open(self, path):
        defaults = self.library.llama_model_default_params
        defaults.restype = Params
        params = defaults()
        params.vocab_only = True
        load = self.library.llama_model_load_from_file
        load.argtypes = [ctypes.c_char_p, Params]
        model = load(str(path).encode(), params)
        if not model:
            sys.exit(f"{path} does not load")
        return ctypes.c_void_p(self.library.llama_model_get_vocab(ctypes.c_void_p(model)))

    def tokenize(self, vocab, text):
        raw = text.encode()
        ids = (ctypes.c_int32 * (4 * len(raw) + 16))()
        n = self.library.llama_tokenize(vocab, raw, len(raw), ids, len(ids), False, False)
        assert n >= 0
        return list(ids[:n])


def hash_ids(ids):
    value = 0x811c9dc5
    for byte in struct.pack(f"<{len(ids)}i", *ids):
        value = (value ^ byte) * 0x01000193 & 0xffffffff
    return f"{value:08x}"


def main():
    library, *names = sys.argv[1:]
    peer = Peer(library)
    texts = make_texts()
    goldens = {}
    lines = []
    (HERE / "pre" / "hard.json").write_text(json.dumps(texts, indent=0, ensure_ascii=False) + "\n")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "vocabulary.gguf"
            write_vocabulary(path, name)
            vocab = peer.open(path)
            all_ids = [peer.tokenize(vocab, text) for text in texts]
        golden = "".join((" ".join(map(str, ids)) if i < N_SHOWN else hash_ids(ids)) + "\n"
                         for i, ids in enumerate(all_ids))
        if golden not in goldens:
            goldens[golden] = name
            (HERE / "pre" / f"{name}.ids").write_text(golden)
        lines.append(f"{name}\t{goldens[golden]}\n")
    (HERE / "pre" / "names.tsv").write_text("".join(lines))


if __name__ == "__main__":
    main()
