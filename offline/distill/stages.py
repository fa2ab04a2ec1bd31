# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a run does: the target answers, the draft learns, its file is written."""
import itertools

import torch

from progress import Progress

from . import answers, files, folder, learning, llama, texts

SHARD = 16           # Documents that are answered at the same time and kept in a file.
SAVED = 25           # Steps between two checkpoints.


def check_pair(target, draft):
    """That both have the same tokens."""
    for key in ("tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"):
        if target.keys.get(key) != draft.keys.get(key):
            raise files.GgufError(f"{draft.path}: the vocabulary is not that of {target.path} "
                                  f"({key} differs)")


def cut(path, options, target, pieces):
    windows = texts.read_windows(path, options.window, target.n_vocab)
    return texts.cut_documents(windows, pieces, options.header, target.n_ctx)


def answer(options, work, target, pieces, path, name, n_shards):
    """Answers to the first documents of @path, written where they are not there yet."""
    documents = cut(path, options, target, pieces)
    progress, made = None, []
    for i in range(n_shards):
        shard = list(itertools.islice(documents, SHARD))
        if not shard:
            break
        found = work.load_answers(f"{name}-{i:05}")
        if found is None:
            progress = progress or Progress(name, n_shards, i)
            found = answers.make(target, pieces.end, shard, options.tokens, options.seed + i)
            work.save_answers(f"{name}-{i:05}", found)
            progress.report(i + 1)
        made += found
    if not made:
        raise files.GgufError(f"{path}: no document has a reply behind {options.header!r}")
    return made


def train(options, work, draft, documents):
    course = learning.Course(draft, options.rate, options.seed)
    last = work.path / f"steps-{options.steps}-of-{options.documents}.npz"
    steady = work.path / "steady.npz"
    turn = learning.get_steady(options.steps)
    for path in (last, steady):
        if path.exists() and course.load(path, turn if path == steady else options.steps):
            break
    progress = Progress("training", options.steps, course.step)
    while course.step < options.steps:
        loss = course.advance(documents, options.steps)
        if course.step <= turn and (course.step % SAVED == 0 or course.step == turn):
            course.save(steady)
        elif course.step % SAVED == 0 or course.step == options.steps:
            course.save(last)
        progress.report(course.step, f", divergence {loss:.3f}")


def run(options):
    torch.set_num_threads(options.threads)
    target_file, draft_file = files.Gguf(options.target), files.Gguf(options.draft)
    check_pair(target_file, draft_file)
    target, draft = llama.Llama(target_file), llama.Llama(draft_file)
    if target.n_vocab != draft.n_vocab:
        raise files.GgufError(f"{options.draft} writes {draft.n_vocab} tokens, {options.target} "
                              f"{target.n_vocab}")
    # Both must bear what is written.
    target.n_ctx = min(target.n_ctx, draft.n_ctx)
    pieces = files.Pieces(target_file)
    settings = {name: getattr(options, name)
                for name in ("window", "tokens", "rate", "seed", "header")}
    settings |= {name: folder.digest(getattr(options, name))
                 for name in ("target", "draft", "texts")}
    work = folder.Folder(options.work, settings)
    documents = answer(options, work, target, pieces, options.texts, "answers",
                       -(-options.documents // SHARD))
    checked = options.check and answer(options, work, target, pieces, options.check,
                                       f"check-{folder.digest(options.check)[:8]}", 1)
    del target
    before = checked and learning.judge(draft, checked)
    train(options, work, draft, documents)
    if checked:
        after = learning.judge(draft, checked)
        print(f"divergence {before[0]:.4f} before, {after[0]:.4f} after; same token likeliest "
              f"{before[1]:.4f} before, {after[1]:.4f} after")
    files.write(options.out, draft_file, options.type,
                {name: values.detach().numpy() for name, values in draft.weights.items()},
                "Draft model for speculative decoding, distilled on its target's answers")
    print(f"{options.out}: {options.type}, {len(documents)} documents, {options.steps} steps")
