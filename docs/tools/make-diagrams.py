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

    def mark(self, kind, x, y, number):
        """A numbered step of a way."""
        self.parts.append(f'<circle class="{kind}" cx="{x}" cy="{y}" r="9"/>')
        self.text(x, y + 4, str(number), "on", "middle")

    def finish(self):
        return "\n".join([*self.parts, "</svg>", ""])


def draw_architecture():
    """The folders of service/ as rooms, and three ways through them; service/README.md tells each way by these numbers."""
    p = Picture(860, 700, "The folders of the service, and the ways of a token, of pressure and of a weight byte through them")
    p.box(20, 18, 820, 44, "applications", "over libllmsvc, llmctl or plain D-Bus; a session manager that asks for memory")
    p.box(20, 92, 580, 62, "bus/", "limits/ drops floods · identity/ finds out who calls · objects/ checks options", "stream/ sends text through pipes")
    p.box(20, 184, 580, 62, "engine/", "calls/ makes a prompt and a request of it · contexts/ and apps/: turns, quotas", "models/ says what answers · memory/ asks holders")
    p.box(640, 138, 200, 108, "contexts/ · accounts/", "turns, messages, tokens,", "who calls: SQLite,", "committed with each turn")
    p.box(20, 276, 140, 108, "sched/", "deadlines, fairness,", "prices of steps,", "budgets of rows")
    p.box(190, 276, 220, 108, "runtime/: the executor", "steps: from admission to the end", "memory: evict, weights, prefixes", "upkeep: quantize, write, check")
    p.box(440, 276, 160, 108, "decoding/", "guesses, sampler,", "constraints/: what an", "answer may say next")
    p.box(20, 414, 580, 44, "forward/ over kernels/", "a batch of rows, stage by stage; what is not there yet is pending")
    p.box(20, 488, 275, 90, "weights/", "mapped, or through a ring", "of buffers; experts", "that were used last")
    p.box(325, 488, 275, 90, "kv/", "chunks: quantized, written ahead,", "evicted, read back or computed", "again; disk/: extents")
    p.box(640, 276, 200, 182, "memory/", "the ledger counts every byte;", "the governor reads pressure", "(PSI, control groups, Trim),", "a pure function decides,", "holders are asked,", "the cheapest first")
    p.box(20, 608, 580, 62, "model/ · template/ · tokenizer/ · gguf/", "a file becomes tensors, a vocabulary, a chat template;", "untrusted until it is checked")
    p.box(640, 488, 200, 182, "io/ · storage", "files mapped, read through", "io_uring or threads;", "what lies there is a cache:", "model copies, chunks,", "step costs")
    token, pressure, byte = "a", "b", "c"
    for points in (((60, 62), (60, 92)), ((60, 154), (60, 184)), ((60, 246), (60, 262), (230, 262), (230, 276)), ((190, 350), (160, 350)),
                   ((300, 384), (300, 414)), ((410, 330), (440, 330)), ((540, 276), (540, 246)), ((560, 184), (560, 154)), ((560, 92), (560, 62)),
                   ((600, 220), (640, 220)), ((360, 458), (360, 488))):
        p.arrow(*points)
    for points in (((740, 62), (740, 100), (850, 100), (850, 300), (840, 300)), ((640, 300), (620, 300), (620, 230), (600, 230)),
                   ((640, 360), (620, 360), (620, 266), (380, 266), (380, 276))):
        p.arrow(*points)
    for points in (((160, 608), (160, 578)), ((640, 600), (612, 600), (612, 593), (230, 593), (230, 578)), ((100, 488), (100, 458))):
        p.arrow(*points)
    for kind, marks in ((token, ((60, 72, 1), (60, 164, 2), (130, 262, 3), (208, 294, 4), (300, 394, 5), (420, 330, 6), (560, 82, 7),
                                 (612, 220, 8), (360, 468, 9))),
                        (pressure, ((740, 82, 1), (620, 330, 2), (620, 250, 3), (500, 266, 4))),
                        (byte, ((160, 598, 1), (420, 593, 2), (100, 478, 3)))):
        for x, y, number in marks:
            p.mark(kind, x, y, number)
    for x, kind, text in ((20, token, "the way of a token"), (220, pressure, "the way of pressure"), (420, byte, "the way of a weight byte")):
        p.mark(kind, x + 9, 686, "")
        p.text(x + 26, 690, text, "note")
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
