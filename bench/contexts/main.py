# SPDX-License-Identifier: LGPL-2.1-or-later
"""Contexts that are switched (L12): traces in virtual time through the real store under several
policies (parts grid, capacity, ablations and sweeps: these, unless others are named), and the same
things measured in real time (switches, ttft and slots). docs/benchmarks/contexts.md says what the
figures mean."""
import os
import tempfile
import time

from lib import figures

from .grid import Grid, PartError, run_part
from .tables import Parts

VIRTUAL_PARTS = ("grid", "capacity", "ablations", "sweeps")
REAL_PARTS = ("switches", "ttft", "slots")
POLICIES = ("llms", "vllm-sq", "vllm-s", "swapping", "lmk")
SHAPES = ("8m", "1.1b", "1.3b-mha")
# Small enough to compute whole contexts again some hundred times.
SWITCH_SHAPES = ("8m", "1.1b-2l")
DEVICES = ("disk", "ufs4", "ufs3", "sd")


def parse(arguments):
    parser = figures.Options("contexts", __doc__)
    several = {"meta": "NAME", "action": "append"}
    parser.add_argument("parts", metavar="PART", nargs="*")
    parser.add("policies", meta="NAME,…", help="Policies to compare, with the first one (llms, "
               "vllm-sq, vllm-s, swapping, lmk); service is llms, lru and lctru are it with another "
               "eviction; any that bench/policies/bench-kv-policies.h names")
    parser.add("policy", help="The same, one at a time", **several)
    parser.add("shape", help="Models, several times (8m, 1.1b, 1.3b-mha; switches: 8m, 1.1b-2l)",
               **several)
    parser.add("device", help="Devices, several times (disk, ufs4, ufs3, sd)", **several)
    parser.add("seed", default="1", meta="N,…", help="Other traces; of several, tables have means "
               "and ranges (1)")
    parser.add("hours", float, help="Virtual time of a trace (72)", meta="HOURS")
    parser.add("switches", int, help="Real switches of each model (200)")
    parser.add_flag("quick", "Few points, short traces")
    parser.add("rates", meta="FILE", help="What computing and reading cost here: used where it has "
               "them, measured and added where not")
    parser.add_argument("--ttft", action="store_true",
                        help="The part ttft: questions behind contexts that are there, read, "
                             "computed")
    parser.add_argument("--deepest", type=int, default=4096, metavar="N",
                        help="Tokens before the questions of ttft at most (4096): 1024, 4096, "
                             "16384, 32768 as far as that")
    parser.add_argument("-m", "--model", metavar="FILE", help="The shipped model, for the shape 8m")
    parser.add("folder", default=tempfile.gettempdir(), meta="FOLDER",
               help="On the disk to measure; models with random weights go there for a while (the "
               "temporary one)")
    parser.add("memory", meta="FOLDER", default="/dev/shm" if os.path.isdir("/dev/shm") else None,
               help="In memory, for the chunks of the replays (/dev/shm)")
    parser.add("peer", meta="PROGRAM", help="A program that saves and loads the context of a "
               "model, for the part slots")
    parser.add("jobs", int, 0, help="Replays at once (all processors)")
    parser.add_flag("json", "One JSON object instead of tables")
    parser.add("json-file", meta="FILE", help="The same, beside the tables")
    options = parser.parse_args(arguments)
    if options.ttft:
        options.parts.append("ttft")
    for part in options.parts:
        if part not in VIRTUAL_PARTS + REAL_PARTS:
            parser.error(f"There is no part “{part}”: see llmsvc-bench contexts --help")
    if options.policies is not None:
        options.policy = options.policies.split(",") + (options.policy or [])
    try:
        options.seeds = [int(seed) for seed in options.seed.split(",")]
    except ValueError:
        parser.error("contexts needs whole numbers, with commas between them, after --seed")
    if len(set(options.seeds)) < len(options.seeds) or min(options.seeds) < 0:
        parser.error("contexts needs different numbers of 0 or more after --seed")
    if options.hours is None:
        options.hours = 12.0 if options.quick else 72.0
    if options.switches is None:
        options.switches = 20 if options.quick else 200
    if options.hours <= 0 or options.switches < 1 or options.jobs < 0:
        parser.error("contexts needs --hours above 0, --switches of 1 or more, and --jobs that is "
                     "not negative")
    if "slots" in options.parts and options.peer is None:
        parser.error("The part slots needs --peer PROGRAM")
    return options


def run(options):
    chosen = options.parts or VIRTUAL_PARTS
    is_virtual = any(part in VIRTUAL_PARTS for part in chosen)
    sources = {"rates": options.rates, "folder": options.folder, "model": options.model}
    shapes = options.shape or SHAPES
    names = run_part("names", policy=options.policy or POLICIES, device=options.device or DEVICES,
                     shape=options.shape or dict.fromkeys(SHAPES + SWITCH_SHAPES), **sources)
    doubtful = run_part("rates", shape=shapes, **sources)["doubtful"] if is_virtual else []
    grid = Grid(names, options.jobs, rates=options.rates, folder=options.memory or options.folder,
                hours=options.hours)
    parts = Parts(options, names, grid, shapes)
    if is_virtual:
        parts.print_begin(doubtful)
    begin = time.monotonic()
    for part in VIRTUAL_PARTS:
        if part in chosen:
            getattr(parts, f"run_{part}")()
    if is_virtual:
        parts.json["cells"] = grid.to_json()
        parts.print(f"\n{grid.n_calls} calls were replayed in {time.monotonic() - begin:.0f} s, "
                    f"{options.hours:g} virtual hours a trace")
    for part in REAL_PARTS:
        if part in chosen:
            parts.shapes = options.shape or (SWITCH_SHAPES if part == "switches" else SHAPES)
            getattr(parts, f"run_{part}")()
    if options.json:
        figures.print_json(parts.json)
    elif options.json_file is not None:
        figures.write_json(parts.json, options.json_file)
    return 0


def main(arguments):
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="llmsvc-bench-") as folder:
        # What is measured is measured once.
        options.rates = options.rates or os.path.join(folder, "rates.ini")
        try:
            return run(options)
        except PartError as error:
            return error.status
