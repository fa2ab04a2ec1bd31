# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calibration texts as windows of tokens, several kinds apart. The last windows of each are kept for
measuring; nothing is trained on them."""
import dataclasses
import os

import numpy
from modelfile.reader import GgufError

from . import tool

# Windows of a kind on which losses are measured, at most.
N_CHECKED = 16
OWN = "own"


@dataclasses.dataclass
class Kind:
    """learned, checked: [windows × tokens]."""
    name: str
    learned: numpy.ndarray
    checked: numpy.ndarray


def cut(tokens, length, name):
    if len(tokens) < 2 * length:
        raise GgufError(f"{name}: {len(tokens)} tokens are too few for two windows of {length}")
    return tokens[:len(tokens) // length * length].reshape(-1, length).astype(numpy.int64)


def split(name, windows, length, source):
    """Of at most @length tokens."""
    if windows.max() >= source.n_vocab or windows.min() < 0:
        raise GgufError(f"{name}: the token {windows.max()} is not of a vocabulary of "
                        f"{source.n_vocab}")
    n = min(N_CHECKED, max(1, len(windows) // 10))
    windows = windows[:, :length]
    return Kind(os.path.basename(name), windows[:-n], windows[-n:])


def read(options, source, keep=lambda name, make: make()):
    """Each kind of text. @keep: keeps what took minutes, as State.keep() does."""
    length, kinds = options.context + 1, []
    for path in options.windows:
        windows = cut(numpy.fromfile(path, "<u2"), options.window, path)
        kinds.append(split(path, windows, length, source))
    for path in options.text:
        tokens = numpy.array(tool.tokenize(options.tool, options.model, path))
        kinds.append(split(path, cut(tokens, options.window, path), length, source))
    if options.own > 0:
        drawn = keep("own", lambda: {"tokens": tool.draw(options.tool, options.model, options.own,
                                                         length)})
        kinds.append(split(OWN, cut(drawn["tokens"], length, OWN), length, source))
    return kinds


def find(n_kinds, i):
    """Where the window number @i of a mixture is: (kind, number of those of its kind)."""
    return i % n_kinds, i // n_kinds


def mix(kinds, n):
    """@n windows to learn from, of each kind in turn as long as it has any."""
    most = max(len(kind.learned) for kind in kinds)
    length = min(kind.learned.shape[1] for kind in kinds)
    places = (find(len(kinds), i) for i in range(len(kinds) * most))
    found = [kinds[kind].learned[at, :length] for kind, at in places
             if at < len(kinds[kind].learned)]
    return numpy.stack(found[:n])
