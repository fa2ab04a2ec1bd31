#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Draws the pictures of the architecture, of a context's life and of preemption.

    make-diagrams.py FOLDER            writes them
    make-diagrams.py --check FOLDER    compares them with those that are there

They are SVG with text, and follow the reader's choice of light or dark.
"""

import html
import pathlib
import sys

STYLE = """
.card { fill: #ffffff } .box { fill: #f1f3f6; stroke: #b9c0ca } .line { stroke: #5e6670; fill: none } .tip { fill: #5e6670 }
text { font-family: system-ui, 'DejaVu Sans', sans-serif; fill: #20242a; font-size: 14px } .note { fill: #566070; font-size: 12px }
.title { font-weight: bold } .a { fill: #3584e4 } .b { fill: #e66100 } .c { fill: #2ca58d } .d { fill: #7d8794 } .e { fill: #dfe3e8 }
.on { fill: #ffffff; font-size: 12px }
@media (prefers-color-scheme: dark) {
.card { fill: #1f2126 } .box { fill: #2c3038; stroke: #4a515c } .line { stroke: #9aa3af } .tip { fill: #9aa3af } text { fill: #e9ecf0 }
.note { fill: #aeb6c2 } .e { fill: #3c414b } .on { fill: #ffffff }
}
"""


class Picture:
    def __init__(self, width, height, title):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            f' role="img" aria-label="{html.escape(title)}">',
            f"<title>{html.escape(title)}</title>", f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
            ' orient="auto-start-reverse"><path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>',
            f'<rect class="card" width="{width}" height="{height}" rx="12"/>']

    def rectangle(self, kind, x, y, width, height, round_by=3):
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{round_by}"/>')

    def text(self, x, y, text, kind="", anchor="start"):
        size = 12 if kind in ("note", "on") else 14
        kind = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text{kind} x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}">{html.escape(text)}</text>')

    def box(self, x, y, width, height, title, *notes):
        self.rectangle("box", x, y, width, height, 8)
        top = y + height / 2 - 9 * len(notes) + 5
        for i, line in enumerate((title, *notes)):
            self.text(x + width / 2, top + 18 * i, line, "note" if i else "title", "middle")

    def arrow(self, *points, both=False):
        path = " L".join(f"{x} {y}" for x, y in points)
        start = ' marker-start="url(#tip)"' if both else ""
        self.parts.append(f'<path class="line" stroke-width="1.5" d="M{path}" marker-end="url(#tip)"{start}/>')

    def finish(self):
        return "\n".join([*self.parts, "</svg>", ""])


def draw_architecture():
    p = Picture(860, 470, "Applications reach llmsvcd over D-Bus; it schedules their requests over one model")
    for x, name, note in ((20, "mail", "libllmsvc"), (190, "editor", "libllmsvc"), (360, "phone shell", "D-Bus"),
                          (530, "terminal", "llmctl"), (700, "monitor", "libllmsvc")):
        p.box(x, 18, 140, 48, name, note)
        p.arrow((x + 70, 66), (x + 70, 96), both=True)
    p.box(20, 98, 820, 50, "D-Bus and pipes", "who is calling: kernel and bus say · quotas and rate limits per application · text streams through a pipe")
    p.arrow((300, 148), (300, 178))
    p.box(20, 180, 560, 52, "scheduler", "latency targets, deadlines, fairness: which rows of which requests are in the next step")
    p.arrow((300, 232), (300, 262))
    p.box(20, 264, 560, 52, "executor: one step at a time", "rows of all running requests in one forward pass; preemption at every step")
    p.arrow((160, 316), (160, 346), both=True)
    p.arrow((440, 316), (440, 346), both=True)
    p.box(20, 348, 270, 104, "weights", "one copy for all applications,", "mapped or repacked;", "the kernel can take clean pages back")
    p.box(310, 348, 270, 104, "KV cache of each context", "in chunks: quantized, written ahead", "of time, evicted, read back", "or computed again")
    p.box(610, 180, 230, 136, "governor", "watches memory pressure", "(PSI, control groups),", "reclaims the cheapest first,", "grows back slowly")
    p.arrow((725, 316), (725, 334), (595, 334), (595, 390), (582, 390))
    p.box(610, 348, 230, 104, "storage", "texts and tokens in SQLite,", "chunks in files that can be lost:", "they are computed again")
    p.arrow((582, 425), (608, 425), both=True)
    return p.finish()


def draw_life():
    p = Picture(860, 330, "The life of a context: new, quantized, written, evicted, restored")
    stages = [
        ("request", "16 bits, in memory", "bbbbbbbb"),
        ("idle", "quantized: 4 or 3 bits", "qqqqqqbb"),
        ("idle, later", "written ahead of time", "ccccccbb"),
        ("memory is short", "evicted: storage has it", "ddddddee"),
        ("next request", "read or recomputed", "ccccccbb"),
    ]
    for i, (title, note, cells) in enumerate(stages):
        x = 20 + 168 * i
        p.box(x, 20, 148, 60, title, note)
        if i:
            p.arrow((x - 20, 50), (x - 2, 50))
        for j, cell in enumerate(cells):
            left, top = x + 18 + 29 * (j % 4), 98 + 29 * (j // 4)
            p.rectangle("e", left, top, 24, 24)
            height = {"b": 24, "q": 8, "c": 8, "d": 8, "e": 0}[cell]
            if height:
                p.rectangle({"b": "b", "q": "b", "c": "c", "d": "d"}[cell], left, top + 24 - height, 24, height)
    p.rectangle("a", 20, 176, 820, 34, 8)
    p.text(430, 198, "the text and the tokens of every turn, in SQLite: committed with the turn, kept until the application closes the context",
           "on", "middle")
    for x, kind, text in ((20, "b", "only in memory"), (180, "c", "in memory and on storage"), (400, "d", "on storage"),
                          (540, "e", "only as text")):
        p.rectangle(kind, x, 232, 16, 16)
        p.text(x + 24, 245, text, "note")
    p.text(20, 280, "A cell is a chunk of 16 tokens, filled as high as its numbers have bits. What storage lacks is computed again", "note")
    p.text(20, 298, "from the text, in the pass that reads the rest. A crash at any moment loses chunks, never text.", "note")
    return p.finish()


def draw_preemption():
    p = Picture(860, 330, "A background request is preempted by an interactive one and goes on where it was")
    lanes = [("background", 70), ("interactive", 150)]
    for name, y in lanes:
        p.text(20, y + 25, name, "title")
        p.rectangle("e", 130, y + 17, 710, 2, 1)
    # steps: (lane, first, how many, colour, label)
    for lane, first, n, kind, label in (
            (0, 0, 5, "d", "prefill"), (1, 5, 2, "a", "prefill"), (1, 7, 8, "b", "decode"),
            (0, 15, 3, "d", "prefill"), (0, 18, 5, "c", "decode"), (1, 23, 1, "a", ""), (1, 24, 6, "b", "decode"),
            (0, 24, 6, "c", "decode")):
        y = lanes[lane][1]
        for i in range(n):
            p.rectangle(kind, 130 + 23.6 * (first + i), y + 2, 21, 32)
        if label:
            p.text(130 + 23.6 * (first + n / 2) - 1, y - 4, label, "note", "middle")
    for step, text in ((5, "a person asks"), (15, "answered"), (23, "asks again")):
        x = 130 + 23.6 * step - 1.5
        p.parts.append(f'<path class="line" stroke-dasharray="4 4" d="M{x} 44 L{x} 190"/>')
        p.text(x, 34, text, "note", "middle")
    p.arrow((130, 222), (840, 222))
    p.text(840, 240, "steps of the model", "note", "end")
    for y, text in ((262, "The background request stops at the next step, not at its end: the person waits for one step, not for a document."),
                    (282, "Its KV cache stays, or is evicted and read back: prefill goes on where it was, and its text is the same."),
                    (302, "Where deadlines leave room, rows of both are in one step (right): weights are read once for all of them.")):
        p.text(20, y, text, "note")
    return p.finish()


def main():
    is_check = sys.argv[1:2] == ["--check"]
    folder = pathlib.Path(sys.argv[-1])
    faults = 0
    for name, text in (("architecture", draw_architecture()), ("context-life", draw_life()),
                       ("preemption", draw_preemption())):
        path = folder / f"{name}.svg"
        if not is_check:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            print(f"make-diagrams: {path} is not what this program draws")
            faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
