# SPDX-License-Identifier: LGPL-2.1-or-later
"""Who calls when, for how much.

Calls of six applications, with prompts and answers drawn from one law per class. The call of one
number is the same for one seed whatever the load: a higher load only brings it sooner.
"""
import dataclasses
import math

from lib.figures import Random

# Calls come in blocks of ten in which the shares of the classes hold exactly, in random order: less
# chance in small samples.
BLOCK = 10
# What random numbers are for.
TIMES, CLASS, CALL, TEXT, N_PURPOSES = 1, 2, 3, 4, 16


@dataclasses.dataclass(frozen=True)
class Law:
    """A class: its share of all calls in percent, its targets (0: none), and between which numbers
    the words of prompts and the tokens of answers lie evenly."""
    share: int
    ttft_ms: float
    tpot_ms: float
    words: tuple
    output: tuple
    apps: tuple


LAWS = {
    "interactive": Law(30, 1000, 100, (8, 32), (8, 24),
                       ("org.llm.bench.Chat", "org.llm.bench.Keyboard")),
    "responsive": Law(30, 5000, 250, (32, 128), (16, 48),
                      ("org.llm.bench.Mail", "org.llm.bench.Browser")),
    "background": Law(40, 0, 0, (128, 512), (16, 64),
                      ("org.llm.bench.Indexer", "org.llm.bench.Archive")),
}
APPS = [app for law in LAWS.values() for app in law.apps]


@dataclasses.dataclass(frozen=True)
class Arrival:
    """at_s: from the beginning. n_words: of the prompt. n_output: tokens of the answer."""
    number: int
    slo_class: str
    app: str
    at_s: float
    n_words: int
    n_output: int


def derive(seed, purpose, number):
    return Random.derive(seed, number * N_PURPOSES + purpose)


def choose_class(seed, number):
    """Its place in the shuffled block."""
    block = [name for name, law in LAWS.items() for _ in range(law.share * BLOCK // 100)]
    derive(seed, CLASS, number // BLOCK).shuffle(block)
    return block[number % BLOCK]


def make_arrival(seed, number, divisor, at_s=0.0):
    random = derive(seed, CALL, number)
    name = choose_class(seed, number)
    law = LAWS[name]
    app = random.choose(law.apps)
    n_words = max(1, random.range(*law.words) // divisor)
    return Arrival(number, name, app, at_s, n_words, random.range(*law.output))


def make_trace(seed, rate, seconds, divisor):
    """Calls at random moments (Poisson), @rate a second on average, until @seconds have passed."""
    random = derive(seed, TIMES, 0)
    trace = []
    at_s = -math.log(1 - random.get()) / rate
    while at_s < seconds:
        trace.append(make_arrival(seed, len(trace), divisor, at_s))
        at_s += -math.log(1 - random.get()) / rate
    return trace


def make_batch(seed, n, divisor):
    """The first @n calls, all at once."""
    return [make_arrival(seed, number, divisor) for number in range(n)]


def make_text(seed, arrival):
    """Words of two letters. Nothing in it repeats, so that no program finds what it has computed
    before."""
    random = derive(seed, TEXT, arrival.number)
    letters = [chr(random.range(ord("a"), ord("z"))) for _ in range(2 * arrival.n_words)]
    return " ".join(map("".join, zip(letters[::2], letters[1::2])))
