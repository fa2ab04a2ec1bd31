# SPDX-License-Identifier: LGPL-2.1-or-later
"""Plots that people can read, from the JSON of each kind of benchmark."""
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import rig

import plots

GATES = str(rig.SOURCE / "tests/gates")
SVG = "{http://www.w3.org/2000/svg}"
PLOTS = rig.SOURCE / "bench/plots.py"
DRAFTS = rig.SOURCE / "docs/benchmarks/drafts"
# A last digit may be rounded otherwise.
POINT_TOLERANCE = 0.25
MOMENTS = [[second / 2, 1.5, 2.0, 0.5, 0.6, 0] for second in range(1200)]
HELD = ("resident", "not backed by files", "heap in use", "state folder", "descriptors", "threads",
        "contexts", "applications")


def make_cells():
    return [{"shape": "1b", "device": device, "pattern": "random", "budget-share": 0.25,
             "policy": policy, "contexts": n, "wait": {"mean-ms": n * scale}}
            for device in ("disk", "sd") for policy, scale in (("llms", 0.1), ("lru", 10))
            for n in ((2, 4, 8) if policy == "lru" else (2, 4, 8, 8, 64))]


def make_draft_cells():
    return [{"model": "7b", "limit-mib": limit, "task": "reply", "draft": "1m", "method": method,
             "prompts": 1, "ms-per-token": ms * (3000 - limit)}
            for limit in (1000, 2000)
            for method, ms in (("plain", 1), ("chain:2", 0.7), ("chain:8", 0.5), ("tree", 0.4),
                               ("peer chain:2", 3), ("peer chain:4", 2))]


def make_runs():
    def measured(value):
        return {"median": value}

    return [{"model": {"file": "1b.gguf"},
             "limits": {"read": measured(30), "compute": measured(900), "compute-instruction": "int8"},
             "results": [{"engine": engine, "test": f"prompt of {n}",
                          "gigaops-per-second": measured(speed),
                          "gigabytes-per-second": measured(speed / n)}
                         for engine, speed in (("llmsvc", 400), ("llmsvc, w8a8", 500))]}
            for n in (64, 512)]


# By kind: data, panels, and a name that must be in the picture.
EXAMPLES = {
    "contexts": ({"cells": make_cells()}, 2, "lru"),
    "drafts": ({"cells": make_draft_cells()}, 3, "tree"),
    "pressure": ({"leak": {"bound-gib": 8, "moments": MOMENTS}}, 1, "weights in memory"),
    "roofline": (make_runs(), 1, "w8a8"),
    "slo": ({"classes": {"interactive": {"ttft-ms": 1000, "tpot-ms": 100},
                         "background": {"ttft-ms": 0, "tpot-ms": 0}},
             "results": [{"policy": "fifo & others", "load": load, "classes": {
                 name: {"met-percent": 90} for name in ("interactive", "background")}}
                 for load in (0.5, 0.9)]}, 2, "fifo & others"),
    "soak": ({"at-rest": {"seconds": list(range(0, 1800, 30)), **{
        held: {"samples": [100.0] * 60} for held in HELD}}}, 2, "heap in use"),
    "storm": ({"limit-bytes": 1 << 30, "runs": [
        {"beside": "nobody", "storms": [], "moments": []},
        {"beside": "llmsvc", "storms": [{"begin-s": 20}],
         "moments": [[i / 10, 500, 300, 800, i, i * 10] for i in range(600)]}]}, 4, "the eater"),
}


def read_texts(path):
    return ["".join(text.itertext()) for text in
            xml.etree.ElementTree.parse(path).iter(f"{SVG}text")]


def read_points(path):
    """All numbers of a picture's lines."""
    return [float(number) for element in xml.etree.ElementTree.parse(path).iter(f"{SVG}path")
            for number in re.findall(r"-?\d+\.?\d*", element.get("d"))]


class Plots(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def test_kinds(self):
        self.assertEqual(set(EXAMPLES), set(plots.KINDS))
        for kind, (data, n_panels, name) in EXAMPLES.items():
            with self.subTest(kind):
                self.assertEqual(len(list(plots.KINDS[kind](data))), n_panels)
                path = self.folder / f"{kind}.svg"
                if kind in plots.GATHERED:
                    plots.draw(kind, data, path)
                else:
                    plots.draw_into(kind, data, self.folder / "new")
                    path = self.folder / "new" / f"{kind}.svg"
                self.assertIn(name, read_texts(path))
                self.assertLess(path.stat().st_size, 60000)

    def test_roofline(self):
        """The roof rises to the limit of computing, and stays there; engines are below."""
        panel, = plots.make_roofline(make_runs())
        self.assertEqual(panel.lines, [("limit", [7.5, 30, 512], [225, 900, 900]),
                                       ("llmsvc", [64, 512], [400, 400]),
                                       ("w8a8", [64, 512], [500, 500])])

    def test_contexts(self):
        """Of what more than the grid was computed of, the grid is shown."""
        for panel in plots.make_contexts(EXAMPLES["contexts"][0]):
            self.assertEqual([x for _, x, _ in panel.lines], [[2, 4, 8]] * 2)

    def test_drafts(self):
        """Chains are a line by their length, other methods lines across it."""
        panel = next(plots.make_drafts(EXAMPLES["drafts"][0]))
        self.assertEqual(panel.lines, [("chain", [2, 8], [1400, 1000]),
                                       ("plain", [2, 8], [2000] * 2),
                                       ("tree", [2, 8], [800] * 2),
                                       ("peer chain:4", [2, 8], [4000] * 2)])

    def test_committed(self):
        """The pictures of docs/drafts.md are those of the figures beside them."""
        for name in ("drafts", "budgets"):
            path = DRAFTS / f"{name}.svg"
            drawn = self.folder / path.name
            plots.draw("drafts", [json.loads((DRAFTS / f"{name}.json").read_text())], drawn)
            mine, committed = read_points(drawn), read_points(path)
            self.assertEqual(len(mine), len(committed))
            self.assertLess(max(abs(a - b) for a, b in zip(mine, committed)), POINT_TOLERANCE)

    def test_same(self):
        """The same JSON gives the same file: what is committed can be compared."""
        data = self.folder / "data.json"
        data.write_text(json.dumps(EXAMPLES["slo"][0]))
        for name in ("one.svg", "other.svg"):
            subprocess.run([sys.executable, "-B", PLOTS, "slo", data, self.folder / name],
                           check=True)
        self.assertEqual((self.folder / "one.svg").read_bytes(),
                         (self.folder / "other.svg").read_bytes())

    def test_usage(self):
        for arguments in ([], ["slo", "data.json"], ["luck", "data.json", "out.svg"]):
            outcome = subprocess.run([sys.executable, "-B", PLOTS, *arguments], text=True,
                                     capture_output=True)
            self.assertEqual(outcome.returncode, 2)
            self.assertIn("Usage", outcome.stderr)

    def test_thin(self):
        """Many points become few, and no extreme is lost."""
        x = list(range(5000))
        y = [random.random() for _ in x]
        y[1234], y[4321] = 7, -7
        few_x, few_y = plots.thin(x, y)
        self.assertLessEqual(len(few_x), plots.MAX_POINTS)
        self.assertEqual((max(few_y), min(few_y)), (7, -7))
        self.assertEqual(few_x, sorted(few_x))
        self.assertEqual(plots.thin(x[:9], y[:9]), (x[:9], y[:9]))

    def test_labels(self):
        """Whatever the numbers are, labels lie beside each other and within the drawing."""
        sys.path.insert(0, GATES)
        import importlib
        gate = importlib.import_module("check-plots")
        for number in range(5):
            scale = 10 ** random.uniform(-3, 5)
            n = random.randint(2, 500)
            moments = [[i * scale, *([scale * random.random()] * 4), 0] for i in range(n)]
            path = self.folder / f"{number}.svg"
            plots.draw("pressure", [{"random": {"bound-gib": scale, "moments": moments}}], path)
            self.assertEqual(list(gate.find_faults(path)), [])


unittest.main()
