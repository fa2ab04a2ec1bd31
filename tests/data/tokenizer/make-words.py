#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Writes pre/NAME.words: how the published pattern of each pre-tokenizer cuts
the texts of this folder, by the regex module (python3-regex). One line a
text, words percent-encoded with spaces between. Run it only after a change."""

import pathlib
import urllib.parse

import regex

HERE = pathlib.Path(__file__).parent
DELIMITER = b"\n__ggml_vocab_test__\n"

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# Each pattern cuts what the ones before it left, matches as well as gaps.
PATTERNS = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "llama-bpe": [LLAMA3 % "{1,3}"],
    "qwen2": [LLAMA3 % ""],
}

MORE = [
    "1234567 12 3\u0663\u0664\u0665\u0666 \u00bd\u00b2\u2167",
    "a'Tb 'S'RE'll'LL'x '",
    "a\u3000b \u2003\u2003c\u00a0 d\u0085e",
    " \n \n\n  x\r\n\r\n\ty \n",
    "!?\n\n...\r\nx  \t ",
    "\u0301a \u200dx \u20ac5 _a -b",
    "a\u0939\u093f\u0928\u094d z",
    "\u6211\u4eecabc\ud55c\uad6d\u3042\u30a2\u0e01",
]


def cut(words, pattern):
    for word in words:
        at = 0
        for match in regex.finditer(pattern, word):
            if match.start() > at:
                yield word[at:match.start()]
            yield match.group()
            at = match.end()
        if at < len(word):
            yield word[at:]


def main():
    texts = MORE[:]
    for name in "common.inp", "more.inp":
        texts += [text.decode() for text in (HERE / name).read_bytes().split(DELIMITER)]
    for name, patterns in PATTERNS.items():
        lines = []
        for text in texts:
            words = [text] if text else []
            for pattern in patterns:
                words = [word for word in cut(words, pattern) if word]
            assert "".join(words) == text
            lines.append(" ".join(urllib.parse.quote(word) for word in words))
        (HERE / "pre" / f"{name}.words").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
