# SPDX-License-Identifier: LGPL-2.1-or-later
"""Drafts beside plain decoding: answers to the prompts of task files by several methods, in turns,
of a model in memory or in a control group that it does not fit into, beside other programs. Greedy;
the prompts are the first ones of each file, or texts of random words. docs/drafts.md says what the
figures mean. Can be taken in pieces: --answers FILE keeps what was measured, and tables are of all
of it."""
import contextlib
import itertools
import json
import os
import pathlib
import random
import shlex
import subprocess
import tempfile

from lib import figures, model

from . import tables

METHODS = ("plain", "lookup", "chain:1", "chain:2", "chain:4", "chain:8", "chain:16", "chain:32",
           "fixed:4,2,2,1", "paper", "tree", "big-little")
# Plain decoding of weights that come by page faults: another process.
MAPPED = "mapped"
RANDOM = "random"
RANDOM_SEED = 1
RANDOM_CHARACTERS = 400
RANDOM_PROMPTS = 64
MIB = 1 << 20


def parse(arguments, name):
    parser = figures.Options(name, __doc__)
    several = {"action": "append", "meta": "FILE"}
    parser.add_argument("model", metavar="MODEL", nargs="?")
    parser.add("draft", help="Draft models, several times", **several)
    parser.add("task", help="Prompts, several times: a JSON object with id and prompt a line; "
               f"“{RANDOM}” for random words", **several)
    parser.add("limit", int, meta="MIB", action="append",
               help="Memory of a control group, several times; 0 for none (0)")
    parser.add("methods", default=";".join(METHODS), meta="NAME;…",
               help=f"To compare ({';'.join(METHODS)}); {MAPPED} is plain by page faults")
    parser.add("first", int, 0, help="Prompts of each file that are left out (0)")
    parser.add("prompts", int, 12, help="Prompts of each file (12); 0: only print what is there")
    parser.add("longest", int, 0, help="Only prompts of so many characters at most (0: all)")
    parser.add("tokens", int, 64, help="Of an answer at most (64)")
    parser.add("runs", int, 3, help="Of each prompt and method (3); their median counts")
    parser.add("seconds", float, 0.0, help="Begin no further prompt of a cell then (0: no end)")
    parser.add("threads", int, 0, help="That compute (0: all processors)")
    parser.add("cache", meta="FOLDER", help="Of prepared copies, and of what steps cost; stays "
               "(one for this run, beside the model)")
    parser.add_flag("warm", "Measure what steps of up to 32 rows cost before the first prompt")
    parser.add("disk", int, meta="MB", action="append", help="Of a second, that the group reads from its "
               "disk, several times, in MB; 0 for what it gives (0)")
    parser.add("iops", int, 0, "Requests of a second likewise; 0 for as many as it serves (0)")
    parser.add("tool", meta="FILE", help="llmsvc-tool, whose profile forecasts plain and active of each "
               "group")
    parser.add("stream", int, 0, help="Rounds of plain streaming beside the disk alone (0)")
    parser.add("peer", action="append", meta="COMMAND",
               help="With the command line of llama-bench, for --stream")
    parser.add("peer-draft", action="append", meta="COMMAND",
               help="With the command line of llama-speculative-simple")
    parser.add("chain", default="1,2,4,8,16", meta="N,…", help="Chains of these; 0 is plain "
               "(1,2,4,8,16)")
    parser.add("answers", meta="FILE", help="Lines of JSON that are added to, one for each answer")
    parser.add_flag("json", "One JSON object instead of tables")
    parser.add("json-file", meta="FILE", help="The same, beside the tables")
    options = parser.parse_args(arguments)
    options.draft, options.task = options.draft or [], options.task or []
    options.limit, options.disks = options.limit or [0], options.disk or [0]
    options.methods = [method for method in options.methods.split(";") if method]
    try:
        options.chain = [int(k) for k in options.chain.split(",")]
    except ValueError:
        parser.error(f"{name} needs whole numbers, with commas between them, after --chain")
    if min(options.first, options.prompts, options.longest, options.stream, options.iops,
           *options.disks, *options.limit, *options.chain) < 0 or options.tokens < 2 or options.runs < 1:
        parser.error(f"{name} needs --tokens of 2 or more, --runs of 1 or more, and numbers that are "
                     "not negative")
    if options.prompts > 0 and (options.model is None or not (options.task or options.stream)):
        parser.error(f"{name} needs a MODEL, and --task or --stream; or --prompts 0 with --answers")
    if options.prompts == 0 and options.answers is None:
        parser.error(f"{name} needs --answers with --prompts 0")
    if (options.stream or options.iops or any(options.disks)) and not any(options.limit):
        parser.error(f"{name} needs --limit with --stream, --disk and --iops")
    if options.peer_draft and not options.draft:
        parser.error(f"{name} needs --draft with --peer-draft")
    return options


def make_random_tasks(path):
    """Words of letters alone, 2 to 8 each: nothing in them can be guessed."""
    chance = random.Random(RANDOM_SEED)
    with open(path, "w", encoding="utf-8") as file:
        for i in range(RANDOM_PROMPTS):
            text = ""
            while len(text) < RANDOM_CHARACTERS:
                text += "".join(chance.choices("abcdefghijklmnopqrstuvwxyz",
                                               k=chance.randint(2, 8))) + " "
            file.write(json.dumps({"id": f"{RANDOM}-{i:03}", "prompt": text}) + "\n")


class Failed(Exception):
    pass


def copy_tasks(options, task, folder):
    """The lines whose prompts are short enough, of which --first leaves some."""
    with open(task, encoding="utf-8") as file:
        lines = [line for line in file if line.strip()]
    short = [line for line in lines
             if options.longest == 0 or len(json.loads(line)["prompt"]) <= options.longest]
    if options.first >= len(short):
        raise Failed(f"{task} has no prompts left: {len(lines)} lines, {len(short)} of them short "
                     f"enough for --longest, and --first is {options.first}")
    path = pathlib.Path(folder, pathlib.Path(task).name)
    path.write_text("".join(short), encoding="utf-8")
    return path


def run_program(options, words, limit):
    """Lines that it prints, in a group of @limit MiB; the last one is the group's."""
    group = [model.find_bench(), "draft-group", limit * MIB, options.disk * 1000000,
             options.iops, options.cache] if limit else []
    outcome = subprocess.run([*map(str, group), *map(str, words)], stdin=subprocess.DEVNULL, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if outcome.returncode != 0:
        raise Failed(outcome.stderr.strip().removeprefix("llmsvc-bench: ")
                     or f"{words[0]} failed with status {outcome.returncode}")
    return outcome


class Book:
    """All that was measured, in earlier runs as well."""

    def __init__(self, path):
        self.path, self.lines = path, []
        if path is not None and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.lines = [json.loads(line) for line in file]

    def add(self, line):
        self.lines.append(line)
        if self.path is not None:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def report(self):
        return {"cells": tables.make_cells([line for line in self.lines if "method" in line]),
                "streams": [line for line in self.lines if "figures" in line]}


def name_of(path):
    return pathlib.Path(path).stem


def name_cell(options, draft, task, limit):
    return {"model": name_of(options.model), "draft": draft and name_of(draft),
            "task": name_of(task), "limit-mib": limit, "disk-mb": options.disk, "iops": options.iops,
            "most-tokens": options.tokens}


def forecast(options, limit):
    """Milliseconds of a token by method, as llmsvc-tool forecasts them in such a group, a twentieth of which
    is left free."""
    if options.tool is None or not limit:
        return {}
    told = run_program(options, [options.tool, "profile", "--json", "--model", options.model,
                                 "--output-dir", options.cache, "--budget", limit * 19 // 20], limit)
    lines = json.loads(told.stdout.splitlines()[0])["forecasts"]
    return {f"active:{line['active']}" if line["active"] else "plain": line["token-us"] / 1000
            for line in lines}


def play(options, book, draft, task, limit, methods, more=()):
    words = [model.find_bench(), "draft-play", "--model", options.model, "--tasks", task,
             "--cache", options.cache, "--costs", f"{options.cache}/costs-{limit}",
             "--limit", limit * MIB, "--first", options.first, "--prompts", options.prompts,
             "--tokens", options.tokens, "--runs", options.runs, "--threads", options.threads,
             "--seconds", options.seconds, *more]
    words += [word for method in methods for word in ("--method", method)]
    if draft is not None:
        words += ["--draft", draft]
    if options.warm:
        words += ["--warm"]
    if limit:
        model.drop_cache(options.model, options.cache)
    lines = [json.loads(line) for line in run_program(options, words, limit).stdout.splitlines()]
    forecasts = forecast(options, limit)
    weights = {"keep-mb": lines[0]["keep"] / 1e6, "weights-mb": lines[0]["weights"] / 1e6}
    peak = {"peak-mib": lines[-1]["peak"] / MIB, "limit-mib": limit} if limit else {}
    for line in lines[1:]:
        if "method" in line:
            if "--mapped" in more:
                line["method"] = MAPPED
            told = {"forecast-ms": forecasts[line["method"]]} if line["method"] in forecasts else {}
            book.add({**name_cell(options, draft, task, limit), **line, **weights, **peak, **told})


def play_peer(options, book, command, draft, task, limit):
    """One start for each prompt and chain; the model file is mapped, as is its default."""
    with open(task, encoding="utf-8") as file:
        lines = list(map(json.loads, file))[options.first:options.first + options.prompts]
    for line, k in ((line, k) for line in lines for k in options.chain):
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as prompt:
            prompt.write(line["prompt"])
            prompt.flush()
            if limit:
                model.drop_cache(options.model)
            outcome = run_program(options, [*shlex.split(command), "-m", options.model, "-md", draft,
                                   "--draft-max", k, "-n", options.tokens, "--temp", 0,
                                   "-t", options.threads or os.cpu_count(), "-f", prompt.name],
                                  limit)
        found = tables.read_peer(outcome.stdout + outcome.stderr)
        if found is None:
            raise Failed(f"{command} printed no line “decoded … tokens in … seconds”")
        name = pathlib.Path(shlex.split(command)[0]).name
        book.add({**name_cell(options, draft, task, limit), "id": line["id"], "run": 0, **found,
                  "method": f"{name} chain:{k}" if k else f"{name} plain"})


def measure_stream(options, limit):
    words = [model.find_bench(), "larger", "--limit", limit, "--disk", options.disk, "--iops",
             options.iops, "--tokens", min(options.tokens, 8), "--runs", options.stream, "--cache",
             options.cache, "--json", options.model]
    for peer in options.peer or []:
        words += ["--peer", peer]
    return {"model": name_of(options.model), "limit-mib": limit, "disk-mb": options.disk,
            "iops": options.iops, "figures": json.loads(run_program(options, words, 0).stdout)}


def measure_task(options, book, task, limit):
    if MAPPED in options.methods:
        play(options, book, None, task, limit, ["plain"], ["--mapped"])
    methods = [method for method in options.methods if method != MAPPED]
    for draft in options.draft or [None]:
        if methods:
            play(options, book, draft, task, limit, methods)
        for peer in options.peer_draft or []:
            play_peer(options, book, peer, draft, task, limit)


def measure(options, book):
    with contextlib.ExitStack() as stack:
        if options.cache is None:
            options.cache = stack.enter_context(tempfile.TemporaryDirectory(
                dir=pathlib.Path(options.model).resolve().parent, prefix="llmsvc-bench-"))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        tasks = []
        for task in options.task:
            if task == RANDOM:
                task = pathlib.Path(folder, f"{RANDOM}-words.jsonl")
                make_random_tasks(task)
            tasks.append(copy_tasks(options, task, folder))
        for limit, options.disk in itertools.product(options.limit, options.disks):
            if not limit and options.disk:
                continue  # all is in memory
            if options.stream and limit:
                book.add(measure_stream(options, limit))
            for task in tasks:
                measure_task(options, book, task, limit)


def main(arguments, name="draft"):
    options = parse(arguments, name)
    try:
        book = Book(options.answers)
        if options.prompts > 0:
            measure(options, book)
    except (Failed, OSError, ValueError) as error:
        return figures.fail(error)
    report = book.report()
    if options.json:
        figures.print_json(report)
    else:
        tables.print_all(report)
    if options.json_file is not None:
        figures.write_json(report, options.json_file)
    # A text that guesses have changed is a fault, however fast it came.
    return 0 if all(tables.is_as_it_should(cell) for cell in report["cells"]) else 1
