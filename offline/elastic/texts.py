# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calibration text as windows of tokens. The last windows are kept for measuring; nothing is
trained on them."""
import numpy
from modelfile.reader import GgufError

from . import tool

# Windows on which losses are measured, at most.
N_CHECKED = 16


def cut(tokens, length, name):
    if len(tokens) < 2 * length:
        raise GgufError(f"{name}: {len(tokens)} tokens are too few for two windows of {length}")
    return tokens[:len(tokens) // length * length].reshape(-1, length).astype(numpy.int64)


def read(options, source):
    """[windows × tokens]"""
    if options.windows is not None:
        windows = cut(numpy.fromfile(options.windows, "<u2"), options.window, options.windows)
    else:
        tokens = tool.tokenize(options.tool, options.model, options.text)
        windows = cut(numpy.array(tokens), options.window, options.text)
    if windows.max() >= source.n_vocab or windows.min() < 0:
        raise GgufError(f"{options.windows or options.text}: the token {windows.max()} is not of a "
                        f"vocabulary of {source.n_vocab}")
    return windows


def split(windows, length):
    """Windows to learn from and windows to measure with, of at most @length tokens."""
    n = min(N_CHECKED, max(1, len(windows) // 10))
    windows = windows[:, :length]
    return windows[:-n], windows[-n:]
