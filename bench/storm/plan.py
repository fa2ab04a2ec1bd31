# SPDX-License-Identifier: LGPL-2.1-or-later
"""What storms are made of: sizes that follow from the model's, times, and the texts of the apps.

All of it is fixed before anything runs: the same model, the same seed, the same plan.
"""
import os

from lib.figures import Random
from lib.model import Model
from lib.process import MIB

N_APPS = 4
# What a server has beside weights and contexts: code, heap, scratch, what its disk cache must have
# for a moment.
BESIDE = 64 * MIB
# What the eater leaves to the server, in quarters of the model: the weights and less than its
# contexts; three quarters of the weights; half of them.
LEFT_QUARTERS = (5, 3, 2)
FILE_PART = 16
GROW_S, HOLD_S, PAUSE_S = 2.0, 5.0, 13.0
# Of what the model can see, and not more than that: the first message takes three eighths, contexts
# grow to seven.
MAX_CTX = 4096
N_TURN = 16
N_ANSWER = 32
# A turn with what the template puts around it.
N_WHOLE_TURN = 72
WORDS = ("we go to the sea and see it as one is no in at on so he or if an ox by up us do me my be "
         "am of").split()


def make_text(model, random, n_tokens):
    """(words until there are @n_tokens, their tokens)."""
    words, ids = [], []
    while len(ids) < n_tokens:
        words += [random.choose(WORDS) for _ in range(max(1, (n_tokens - len(ids)) // 4))]
        ids = model.tokenize(" ".join(words))
    return " ".join(words), ids


class Plan:
    """Sizes are bytes. levels: of the eater, rising. order: the level of each storm."""

    def __init__(self, path, n_storms, seed, hurry=1):
        size = os.path.getsize(path)
        self.model_bytes = size
        self.limit = BESIDE + 2 * size
        self.budget = 2 * self.limit
        self.file_bytes = size // FILE_PART
        self.levels = [self.limit - BESIDE - self.file_bytes - quarters * size // 4
                       for quarters in LEFT_QUARTERS]
        self.grow_s, self.hold_s, self.pause_s = (s / hurry for s in (GROW_S, HOLD_S, PAUSE_S))
        with Model(path) as model:
            self.n_ctx = min(MAX_CTX, model.n_ctx)
            self.eos = model.eos
            self.n_begin = self.n_ctx * 3 // 8
            self.n_turns = max(1, self.n_ctx // 2 // N_WHOLE_TURN)
            random = Random.derive(seed, 1)
            # By app and place.
            self.texts = [[make_text(model, random, self.n_begin if place == 0 else N_TURN)
                           for place in range(self.n_turns + 1)] for _ in range(N_APPS)]
            # As long as an answer.
            self.filler = make_text(model, random, N_ANSWER)
        self.order = [i % len(self.levels) for i in range(n_storms)]
        Random.derive(seed, 2).shuffle(self.order)

    def get_place(self, turn):
        """Which turn of its context an app's turn number @turn is, from 0. A context begins once,
        with a long message; place 1 comes again and again, and takes back all turns behind the
        first."""
        return 0 if turn == 0 else 1 + (turn - 1) % self.n_turns
