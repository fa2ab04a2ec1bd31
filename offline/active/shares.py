# SPDX-License-Identifier: LGPL-2.1-or-later
"""How many inputs each operator keeps for a sparsity of the whole: found greedily, by what the loss
grows by for each weight that is left out."""

# Percent of the layers' weights that are left out. As LLM_MAX_SPARSITY of the service.
SPARSITIES = (10, 20, 30, 40, 50, 60, 70, 80)
INPUTS = ("attention", "attention-output", "ffn", "ffn-down")
# No operator is left with less.
LEAST_KEPT = 0.05


def count_weights(source):
    """Of a layer, by input."""
    q, kv = source.n_heads * source.head_dim, source.n_groups * source.head_dim
    return (source.n_embd * (q + 2 * kv), q * source.n_embd, 2 * source.n_embd * source.n_ff,
            source.n_ff * source.n_embd)


def find_sparsity(kept, weights):
    """Percent of the weights that are left out."""
    return 100 * sum((1 - k) * w for k, w in zip(kept, weights)) / sum(weights)


def make_uniform():
    return [(1 - percent / 100,) * len(INPUTS) for percent in SPARSITIES]


class Search:
    """@measure: the loss of a tuple of kept parts. A candidate's price is measured again only
    while it looks best: prices of the others hardly change by what another operator gives up."""

    def __init__(self, weights, measure, step):
        self.weights, self.measure, self.step = weights, measure, step
        self.kept = (1.0,) * len(weights)
        self.loss = measure(self.kept)
        self.prices = {}

    def lower(self, i, step):
        return tuple(max(k - step, LEAST_KEPT) if j == i else k for j, k in enumerate(self.kept))

    def price(self, i):
        """What giving up a step of input @i costs for each weight, and the loss then."""
        lower = self.lower(i, self.step)
        loss = self.measure(lower)
        return (loss - self.loss) / ((self.kept[i] - lower[i]) * self.weights[i]), loss

    def choose(self):
        fresh = set()
        while True:
            waiting = [i for i, k in enumerate(self.kept) if k > LEAST_KEPT + 1e-9]
            for i in waiting:
                if i not in self.prices:
                    self.prices[i] = self.price(i)
                    fresh.add(i)
            best = min(waiting, key=lambda i: self.prices[i][0])
            if best in fresh:
                return best
            self.prices[best] = self.price(best)
            fresh.add(best)

    def find(self, percent):
        """The kept parts for a sparsity, which must not fall from call to call."""
        while True:
            best = self.choose()
            lower = self.lower(best, self.step)
            if find_sparsity(lower, self.weights) >= percent:
                # The part of the step that is needed; the next sparsity goes on from before it.
                rest = (percent - find_sparsity(self.kept, self.weights)) / 100
                return self.lower(best, rest * sum(self.weights) / self.weights[best])
            self.kept, self.loss = lower, self.prices[best][1]
            del self.prices[best]
