# SPDX-License-Identifier: LGPL-2.1-or-later
"""How many calls meet their latency targets as the load rises.

Of the service, of the service when it takes calls in their order, and of other programs, with the
same calls at the same moments. With --fair, what users keep beside one who floods the service,
in their class or another. docs/benchmarks/slo.md tells how.
"""
import math
import shutil
import tempfile

from lib.bus import CallError
from lib.figures import Options, fail, print_json, write_json
from lib.model import ModelError
from lib.peer import PeerError, count_processors
from slo import fair, report
from slo.play import Player
from slo.trace import LAWS

MAX_LOADS, MAX_USERS, MAX_CASES = 16, 16, 4


def parse_list(text, kind, most, is_right):
    """Rising numbers with commas; None when that is something else."""
    try:
        numbers = [kind(word) for word in text.split(",")]
    except ValueError:
        return None
    rises = all(a < b for a, b in zip(numbers, numbers[1:]))
    return numbers if rises and len(numbers) <= most and all(map(is_right, numbers)) else None


def check(parser, options):
    if options.users or options.slo_class or options.flood_class:
        parser.error("--users, --class and --flood-class go with --fair")
    if not options.daemon or not options.model:
        parser.error("--daemon FILE and --model FILE are needed")
    if not (0 <= options.seconds <= 86400 and 0 <= options.calls <= 10000 and
            (options.rounds is None or options.rounds >= 1) and 1 <= options.slots <= 256 and
            options.threads >= 0):
        parser.error("slo needs --seconds and --calls that are not negative, --rounds of 1 or more "
                     "and --slots from 1 to 256")
    options.rounds = options.rounds or 1
    options.seconds = options.seconds or (3 if options.quick else 20)
    options.calls = options.calls or (20 if options.quick else 40)
    options.divisor = 4 if options.quick else 1
    if options.loads is None:
        options.loads = "0.5,0.9" if options.quick else "0.3,0.5,0.7,0.9,1.1"
    options.loads = parse_list(options.loads, float, MAX_LOADS, lambda load: 0 < load <= 100)
    if not options.loads:
        parser.error("--loads takes up to 16 rising numbers above 0, with commas")
    names = options.policy or ["deadline", "fifo"]
    if not set(names) <= {"deadline", "fifo"}:
        parser.error("--policy takes deadline or fifo")
    options.policies = [(name, name, False) for name in names]
    for peer in options.peer or []:
        title, colon, command = peer.partition(": ")
        options.policies.append((title, command if colon else peer, True))


def check_fair(parser, options):
    if not options.model:
        parser.error("--model FILE is needed")
    if options.daemon or options.policy or options.peer or options.loads is not None or \
            options.calls or options.plots:
        parser.error("--fair needs no --daemon, and takes no policies, peers, loads, calls or "
                     "plots")
    if not (0 <= options.seconds <= 3600 and options.threads >= 0 and
            (options.rounds is None or 1 <= options.rounds <= 1000)):
        parser.error("--fair takes --seconds up to 3600, and 1 to 1000 --rounds")
    options.slo_class = options.slo_class or "interactive"
    if options.slo_class not in LAWS:
        parser.error("--class takes interactive, responsive or background")
    options.flood_class = (options.flood_class or options.slo_class).split(",")
    if not set(options.flood_class) <= set(LAWS):
        parser.error("--flood-class takes interactive, responsive and background, with commas")
    options.users = parse_list(options.users or ("2" if options.quick else "2,4,8"), int, MAX_CASES,
                               lambda n: 2 <= n <= MAX_USERS)
    if not options.users:
        parser.error("--users takes up to 4 rising numbers from 2 to 16, with commas")
    options.seconds = options.seconds or (2 if options.quick else 30)
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.divisor = 8 if options.quick else 1


def parse(arguments):
    parser = Options("slo", "Calls that meet their latency targets, as the load rises.")
    parser.add("daemon", meta="FILE", help="The llmsvcd to measure")
    parser.add_argument("-m", "--model", metavar="FILE", help="The GGUF file to answer with")
    parser.add("policy", meta="NAME", action="append",
               help="deadline or fifo; may be given several times (both)")
    parser.add("peer", meta="[NAME: ]COMMAND", action="append",
               help="A program like llama-server, with arguments; may be given several times")
    parser.add("slots", int, 8, help="Calls that a peer answers at once (8)")
    parser.add("threads", int, 0, help="Threads of peers (all processors)")
    parser.add("loads", meta="LIST",
               help="Shares of the capacity, rising (0.3,0.5,0.7,0.9,1.1)")
    parser.add("seconds", float, 0, "S", help="Of calls in one run (20)")
    parser.add("calls", int, 0, help="At once, to measure the capacity (40)")
    parser.add("rounds", int, help="Runs of each policy at each load, with other calls each time "
               "(1; with --fair 3)")
    parser.add("seed", int, 1, help="Makes other calls (1)")
    parser.add_flag("fair", "What users keep beside one who floods the service; needs --model only")
    parser.add("users", meta="LIST", help="With --fair: how many there are, rising (2,4,8)")
    parser.add("class", meta="CLASS", dest="slo_class",
               help="With --fair: of the calls that are measured (interactive)")
    parser.add("flood-class", meta="LIST",
               help="With --fair: of the flood, one or several (that of --class)")
    parser.add_flag("quick", "Two loads, short runs and prompts")
    parser.add("folder", meta="FOLDER", help="Where prepared copies are kept meanwhile (the folder "
               "for temporary files)")
    parser.add("plots", meta="FOLDER", help="Where plots go, as SVG")
    parser.add_flag("json", "One JSON object instead of tables")
    parser.add("json-file", meta="FILE", help="The same, beside the tables")
    options = parser.parse_args(arguments)
    if not math.isfinite(options.seconds):
        parser.error("--seconds takes a number")
    (check_fair if options.fair else check)(parser, options)
    options.threads = options.threads or count_processors()
    return options


def run(options, cache):
    if options.fair:
        fair.run(options, cache)
        return
    player = Player(options, cache)
    player.run()
    data = report.make_data(player)
    if options.json:
        print_json(data)
    else:
        report.print_notes(player)
    if options.json_file is not None:
        write_json(data, options.json_file)
    if options.plots is not None:
        import plots
        plots.draw_into("slo", data, options.plots)


def main(arguments):
    options = parse(arguments)
    try:
        cache = tempfile.mkdtemp(prefix="llmsvc-bench-", dir=options.folder)
    except OSError:
        return fail(f"No folder can be made in {options.folder}")
    try:
        run(options, cache)
    except (CallError, ModelError, PeerError, RuntimeError, OSError) as error:
        return fail(error)
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    return 0
