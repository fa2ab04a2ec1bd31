# SPDX-License-Identifier: LGPL-2.1-or-later
"""Documents of a token file, and where in them a reply begins."""
import os

import numpy

from .files import GgufError

SPACE_MARK = "\u2581"


def read_windows(path, n_window, n_vocab):
    """[window][token] of a file of 16 bit tokens, least byte first."""
    try:
        n_bytes = os.path.getsize(path)
        if n_bytes == 0 or n_bytes % (2 * n_window) != 0:
            raise GgufError(f"{path}: {n_bytes} bytes are no windows of {n_window} tokens; "
                            "give their length with --window")
        windows = numpy.fromfile(path, "<u2").reshape(-1, n_window)
    except OSError as error:
        raise GgufError(f"{path}: {error.strerror}") from error
    if windows.max() >= n_vocab:
        raise GgufError(f"{path}: token {windows.max()} is not in the models' vocabulary of "
                        f"{n_vocab}")
    return windows


def find_replies(document, pieces, header):
    """Where replies begin: indices of the first token behind each @header."""
    wanted = header.replace(" ", SPACE_MARK)
    begins = []
    for begin, token in enumerate(document):
        if not wanted.startswith(pieces.texts[token]):
            continue
        text = ""
        for i in range(begin, len(document)):
            piece = pieces.texts[document[i]]
            # A tokenizer puts a space behind a special token.
            if text and piece.startswith(SPACE_MARK) and not wanted[len(text):].startswith(piece):
                piece = piece[1:]
            text += "\n" if piece == "<0x0A>" else piece
            if not wanted.startswith(text):
                break
            if text == wanted:
                begins.append(i + 1)
                break
    return begins


def cut_documents(windows, pieces, header, n_ctx):
    """(tokens, beginnings of replies in less than @n_ctx tokens) of each document that has some. A
    document begins with the vocabulary's first token; what a window cuts off is not needed."""
    for window in windows:
        begins = [i for i, token in enumerate(window) if token == pieces.bos] + [len(window)]
        for begin, end in zip(begins, begins[1:]):
            document = window[begin:end].astype(numpy.int64)
            replies = [i for i in find_replies(document, pieces, header) if i < n_ctx]
            if replies:
                yield document, replies
