#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""No two texts of a plot in docs/ lie on each other, and none leaves the drawing."""
import pathlib
import sys
import xml.etree.ElementTree

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"
# Of the wider sans-serif fonts, in parts of the size.
DIGIT, LETTER = 0.64, 0.56


def get_box(text, size):
    """Left, top, right, bottom."""
    size = float(text.get("font-size", size))
    words = text.text or ""
    width = sum(DIGIT if c.isdigit() else LETTER for c in words) * size
    part = {"start": 0, "middle": 0.5, "end": 1}[text.get("text-anchor", "start")]
    left = float(text.get("x")) - part * width
    base = float(text.get("y"))
    return left, base - 0.75 * size, left + width, base


def find_faults(path):
    root = xml.etree.ElementTree.parse(path).getroot()
    _, _, width, height = map(float, root.get("viewBox").split())
    # Turned ones stand alone beside the axis.
    texts = [text for text in root.iter(f"{SVG}text") if text.get("transform") is None]
    boxes = [(get_box(text, root.get("font-size", 12)), text.text) for text in texts]
    boxes.sort(key=lambda item: item[0])
    for at, (box, words) in enumerate(boxes):
        if box[0] < 0 or box[1] < 0 or box[2] > width or box[3] > height:
            yield f"“{words}” leaves the drawing"
        for other, other_words in boxes[at + 1:]:
            if other[0] >= box[2]:
                break
            if other[1] < box[3] and box[1] < other[3]:
                yield f"“{words}” and “{other_words}” lie on each other"


def main():
    paths = sorted(DOCS.rglob("*.svg"))
    n_faults = 0
    for path in paths:
        faults = list(find_faults(path))
        n_faults += len(faults)
        for fault in faults[:3]:
            print(f"{path.relative_to(DOCS)}: {fault}")
    print(f"{len(paths)} plots, {n_faults} faults")
    return 0 if paths and n_faults == 0 else 1


sys.exit(main())
