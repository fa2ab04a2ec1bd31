#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Figures in the documentation that are the same on every machine are what the programs print.

Arguments: llmsvc-bench, llmsvc-tool. What was measured on a machine can't be compared; beside such
figures the documentation names command, machine and commit.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH, TOOL = sys.argv[1:3]
DOCS = ROOT / "docs"
DEMO = ROOT / "data/models/llmsvc-demo-8M-Q8_0.gguf"
RATES = DOCS / "benchmarks/contexts/rates-zen5.ini"
TEXT = ROOT / "tests/data/golden/heldout_sgd_chatml.txt"
# Sets of kernels may add up in another order, which a last digit can show.
TOLERANCE = 0.00015
PERPLEXITIES = {
    "8M Q8_0": DEMO,
    "7M Q4_0": ROOT / "tests/data/models/llmsvc-demo-7M-Q4_0.gguf",
    "draft 1M F16": ROOT / "tests/data/models/llmsvc-demo-draft-1M-F16.gguf",
}
# The traces of the picture of docs/benchmarks/pressure.md, in its order.
PLOTTED = ["browser", "steps", "sawtooth", "leak", "storm"]
# Points of a plot: a last digit may be rounded otherwise.
POINT_TOLERANCE = 0.25
WORDS = {"a hundred": 100, "two thousand": 2000, "twenty thousand": 20000}
# Numbers of the source that texts quote: the text and a pattern of it, the source and one of it.
QUOTES = [
    ("service/bus/org.llm.Service.xml", r"forgotten when (\d+)\s+such",
     "service/engine/apps/llm-engine-apps.c", r"MAX_UNNEEDED_APPS (\d+)"),
    ("docs/benchmarks/soak.md", r"and (\d+) applications of which there is nothing",
     "service/engine/apps/llm-engine-apps.c", r"MAX_UNNEEDED_APPS (\d+)"),
    ("docs/security.md", r"beyond (\d+) refusals",
     "service/bus/limits/llm-bus-gate.c", r"MAX_WITHHELD (\d+)"),
    ("docs/operations.md", r"At most (\d+)\s+records at once",
     "service/base/llm-journal.c", r"BURST\s+(\d+)"),
    ("docs/operations.md", r"records at once and then (\d+) a second",
     "service/base/llm-journal.c", r"RATE_PER_S\s+(\d+)"),
    ("docs/contexts.md", r"chunks of (\d+) tokens",
     "service/kv/llm-kv.h", r"LLM_KV_CHUNK_SLOTS (\d+)"),
    ("docs/contexts.md", r"begin with the same (\d+) tokens",
     "service/kv/llm-kv.h", r"LLM_KV_CHUNK_SLOTS (\d+)"),
    ("docs/contexts.md", r"what (\d+) tokens take with 4 bits",
     "service/kv/llm-kv-work.c", r"LEAST_SLOTS (\d+)"),
    ("docs/architecture.md", r"moments of conversations, (a hundred) times",
     "tests/bus/test-bus-crash.c", r"N_ROUNDS (\d+)"),
    ("docs/benchmarks/pressure.md", r"plays (two thousand) random traces",
     "tests/memory/test-policy.c", r"g_test_thorough \(\) \? \d+ : (\d+)"),
    ("docs/benchmarks/pressure.md", r"\((twenty thousand) with `-m thorough`",
     "tests/memory/test-policy.c", r"g_test_thorough \(\) \? (\d+)"),
]

faults = []
n_figures = 0


def expect(where, wanted, found):
    """Counts a figure, and notes it if the text has another one than the program."""
    global n_figures
    n_figures += 1
    if wanted != found:
        faults.append(f"{where}: the documentation says {found}, the program {wanted}")


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def read_rows(text):
    """The cells of each line of a table."""
    return [[cell.strip() for cell in line.strip("|").split("|")]
            for line in text.splitlines() if line.startswith("|") and not line.startswith("|--")]


def read_section(path, title):
    """From a line that begins with @title to the next heading."""
    text = read(path).split(f"\n{title}", 1)[1]
    return re.split(r"\n#+ ", text, maxsplit=1)[0]


def run(*arguments):
    return subprocess.run(list(map(str, arguments)), text=True, capture_output=True, check=True,
                          timeout=500).stdout


def read_curves(path):
    """All numbers of a picture's lines."""
    lines = re.findall(r'<path d="([^"]*)"', path.read_text(encoding="utf-8"))
    return [float(number) for line in lines for number in re.findall(r"-?\d+\.?\d*", line)]


def check_pressure(folder):
    page = "docs/benchmarks/pressure.md"
    traces = sorted((ROOT / "bench/traces/pressure").glob("*.txt"))
    lines = run(BENCH, "pressure", *traces).splitlines()[1:]
    printed = {}
    for line in lines:
        name, bound, least, given, cuts, relapses, _, stalled, without, _, killed = line.split()
        printed[name] = [bound, least, given, cuts, relapses, stalled, without, killed]
    written = {row[0]: row[1:] for row in read_rows(read_section(page, "| trace |"))}
    expect(f"{page}, traces", sorted(printed), sorted(written))
    for name, figures in printed.items():
        expect(f"{page}, {name}", figures, written.get(name))

    run(BENCH, "pressure", "--plots", folder,
        *(ROOT / f"bench/traces/pressure/{name}.txt" for name in PLOTTED))
    drawn = read_curves(pathlib.Path(folder, "pressure.svg"))
    committed = read_curves(DOCS / "benchmarks/pressure/pressure.svg")
    if len(drawn) != len(committed) or any(abs(a - b) > POINT_TOLERANCE
                                           for a, b in zip(drawn, committed)):
        faults.append("docs/benchmarks/pressure/pressure.svg is not what llmsvc-bench pressure "
                      f"--plots draws of {', '.join(PLOTTED)}")


def check_ablations(folder):
    page = "docs/benchmarks/contexts/tables.md"
    rates = shutil.copy(RATES, folder)
    output = run(BENCH, "contexts", "--rates", rates, "--folder", folder, "--shape", "1.3b-mha",
                 "--device", "disk", "--device", "sd", "ablations")
    printed = read_rows(output)[1:]
    written = [row for row in read_rows(read_section(page, "## Ablations: 1.3 B"))
               if row[2] in ("disk", "sd")]
    expect(f"{page}, rows of ablations", len(printed), len(written))
    for mine, theirs in zip(printed, written):
        expect(f"{page}, ablation {' '.join(mine[:3])}", mine, theirs)


def check_perplexities():
    page = "docs/accuracy.md"
    table = {row[0]: row for row in read_rows(read_section(page, "## Perplexity"))}
    for name, model in PERPLEXITIES.items():
        found = float(run(TOOL, "perplexity", "--model", model, "--exact", TEXT).split()[-1])
        figure = table[name][1]
        near = abs(float(figure) - found) <= TOLERANCE
        expect(f"{page}, {name}", figure if near else f"{found:.4f}", figure)


def check_sizes():
    n_bytes = DEMO.stat().st_size
    label = re.search(r"general\.size_label +string +([\d.]+)M", run(TOOL, "inspect", DEMO)).group(1)
    for page, pattern, wanted in (
            ("README.md", r"\((\d+) million parameters", f"{float(label):.0f}"),
            ("docs/performance.md", r"\((\d+) million parameters", f"{float(label):.0f}"),
            ("docs/performance.md", r"a file of ([\d.]+) MB", f"{n_bytes / 1e6:.1f}"),
            ("docs/benchmarks/soak.md", r"the demo model \(([\d.]+) MB\)", f"{n_bytes / 1e6:.1f}")):
        match = re.search(pattern, re.sub(r"\s+", " ", read(page)))
        expect(f"{page}, size of the demo model", wanted, match and match.group(1))


def check_quotes():
    for page, pattern, source, constant in QUOTES:
        wanted = re.search(constant, read(source))
        found = re.search(pattern, read(page))
        number = found and WORDS.get(found.group(1), found.group(1))
        expect(f"{page}, “{pattern}”", wanted and wanted.group(1), found and str(number))


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_pressure(folder)
        check_ablations(folder)
    check_perplexities()
    check_sizes()
    check_quotes()
    for fault in faults:
        print(fault)
    print(f"{n_figures} figures and rows, {len(faults)} faults")
    return 0 if not faults and n_figures >= 39 else 1


sys.exit(main())
