# SPDX-License-Identifier: LGPL-2.1-or-later
"""The target's own answers to the prompts of documents, and what it would have given each next
token: what the draft is to learn.

All replies of a document share its text, computed once; each sees it up to where it begins."""
import numpy
import torch

from . import llama
from .folder import Answers

# Tokens that are kept of each distribution, the likeliest. The rest is one more outcome.
N_KEPT = 32
# One answer to each prompt at each of these.
TEMPERATURES = (0.0, 0.8)
# Of a document's other rows, the part of which the draft learns as well, to stay a model of it.
OTHER_SHARE = 1 / 16


def get_kept(logits):
    chances, ids = torch.softmax(logits, -1).topk(N_KEPT, -1)
    return ids.numpy().astype(numpy.uint16), chances.numpy().astype(numpy.float16)


def choose(logits, temperatures, random):
    """The next token of each row."""
    chosen = logits.argmax(-1)
    drawn = torch.nonzero(temperatures > 0)[:, 0]
    if len(drawn) > 0:
        chances = torch.softmax(logits[drawn] / temperatures[drawn, None], -1)
        chosen[drawn] = torch.multinomial(chances, 1, generator=random)[:, 0]
    return chosen


class Text:
    """What a document's text is to the rows behind it."""

    def __init__(self, model, tokens):
        self.tokens, self.keys, self.values = tokens, [], []
        n = len(tokens)
        among = model.attend(list(llama.cut_text(n)))

        def attend(i, q, k, v):
            self.keys.append(model.spread(k).transpose(1, 2).contiguous())
            self.values.append(model.spread(v).contiguous())
            return among(i, q, k, v)
        self.logits = model.get_logits(model.run(torch.as_tensor(tokens), torch.arange(n), attend))

    def attend(self, i, q, masks):
        """Of rows behind the text: each head's highest score, the sum of all e^(score − highest),
        and the values so weighed."""
        scores = q.transpose(0, 1) @ self.keys[i] + masks
        most = scores.amax(-1, keepdim=True)
        scores = (scores - most).exp_()
        return (most.transpose(0, 1), scores.sum(-1, keepdim=True).transpose(0, 1),
                (scores @ self.values[i]).transpose(0, 1))


class Writing:
    """Answers that are written at the same time, each behind the text that it answers."""

    def __init__(self, model, texts, begins, temperatures, n_most):
        """@begins: of each text, where its answers begin. @temperatures: of each answer."""
        self.model, self.texts = model, texts
        self.of = torch.tensor([i for i, some in enumerate(begins) for _ in some])
        self.begins = torch.tensor([begin for some in begins for begin in some])
        self.temperatures, self.rows = temperatures, torch.arange(len(self.of))
        shape = len(self.of), n_most, model.n_heads, model.head_dim
        self.own = [[torch.zeros(shape) for _ in "kv"] for _ in range(model.n_layers)]

    def drop(self, going):
        self.of, self.begins, self.temperatures, self.rows = (
            x[going] for x in (self.of, self.begins, self.temperatures, self.rows))
        self.own = [[x[going] for x in layer] for layer in self.own]

    def attend(self, t):
        """For Llama.run(): each row sees its text up to where it begins, and what is written."""
        counts = torch.bincount(self.of, minlength=len(self.texts)).tolist()
        masks = [torch.where(torch.arange(len(text.tokens)) < begins[:, None], 0.0, -torch.inf)
                 for text, begins in zip(self.texts, self.begins.split(counts))]
        copies = self.model.n_heads // self.model.n_kv_heads

        def attend(i, q, k, v):
            q = q * self.model.head_dim ** -0.5
            keys, values = self.own[i]
            keys[:, t], values[:, t] = (x.repeat_interleave(copies, 1) for x in (k, v))
            parts = [text.attend(i, some, mask)
                     for text, some, mask in zip(self.texts, q.split(counts), masks) if len(some)]
            most, total, out = (torch.cat(part) for part in zip(*parts))
            scores = (q[:, None] * keys[:, :t + 1]).sum(-1)
            # Both parts are brought to the same scale, then they are one softmax.
            highest = torch.maximum(most, scores.amax(1)[..., None])
            shrink = (most - highest).exp()
            scores = (scores - highest[:, None, :, 0]).exp()
            out = out * shrink + (scores[..., None] * values[:, :t + 1]).sum(1)
            return (out / (total * shrink + scores.sum(1)[..., None])).flatten(1)
        return attend

    def write(self, end, random):
        """Of each answer: its tokens, and the kept distributions behind all but its last one."""
        first = torch.cat([text.logits[self.begins[self.of == i] - 1]
                           for i, text in enumerate(self.texts)])
        chosen = choose(first, self.temperatures, random)
        answers = [([], [], []) for _ in range(len(self.of))]
        n_most = self.own[0][0].shape[1]
        for t in range(n_most):
            for row, token in zip(self.rows.tolist(), chosen.tolist()):
                answers[row][0].append(token)
            going = (chosen != end) & (self.begins + t < self.model.n_ctx)
            if t + 1 == n_most or not going.any():
                return answers
            if not going.all():
                self.drop(going)
                chosen = chosen[going]
            hidden = self.model.run(chosen, self.begins + t, self.attend(t))
            logits = self.model.get_logits(hidden)
            for row, ids, chances in zip(self.rows.tolist(), *get_kept(logits)):
                answers[row][1].append(ids)
                answers[row][2].append(chances)
            chosen = choose(logits, self.temperatures, random)
        return answers


def collect(text, begins, written, random):
    """The Answers of one document."""
    others = torch.nonzero(torch.rand(len(text.tokens), generator=random) < OTHER_SHARE)[:, 0]
    prompts = sorted({begin - 1 for begin in begins} | set(others.tolist()))
    tokens, learned = [text.tokens], [numpy.array(prompts)]
    parts, at = [get_kept(text.logits[torch.tensor(prompts)])], len(text.tokens)
    for some, ids, chances in written:
        n = len(ids)
        if n > 0:
            # What is behind an answer's last token was not computed, so its row is of no use.
            tokens.append(numpy.array(some[:n]))
            learned.append(numpy.arange(at, at + n))
            parts.append((numpy.stack(ids), numpy.stack(chances)))
        at += n
    return Answers(numpy.array([len(text.tokens)], numpy.uint16),
                   numpy.concatenate(tokens).astype(numpy.uint16),
                   numpy.array(begins, numpy.uint16),
                   numpy.array([len(ids) for _, ids, _ in written], numpy.uint16),
                   numpy.concatenate(learned).astype(numpy.uint16),
                   numpy.concatenate([ids for ids, _ in parts]),
                   numpy.concatenate([chances for _, chances in parts]))


def make(model, end, documents, n_most, seed):
    """The Answers of each of the (tokens, beginnings of replies) in @documents. The same arguments
    give the same answers."""
    random = torch.Generator().manual_seed(seed)
    with torch.inference_mode():
        begins = [replies * len(TEMPERATURES) for _, replies in documents]
        temperatures = torch.cat([torch.tensor(TEMPERATURES).repeat_interleave(len(replies))
                                  for _, replies in documents])
        texts = [Text(model, tokens[:max(replies)]) for tokens, replies in documents]
        written = iter(Writing(model, texts, begins, temperatures, n_most).write(end, random))
        return [collect(text, some, [next(written) for _ in some], random)
                for text, some in zip(texts, begins)]
