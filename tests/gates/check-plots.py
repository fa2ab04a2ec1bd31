#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""No two texts of a plot in docs/ lie on each other, none leaves the drawing, and all plots
together are small."""
import pathlib
import re
import sys
import xml.etree.ElementTree

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"
# Bytes of all together: more is made from the benchmarks' JSON by those who want it.
MAX_BYTES = 330000
# Of the wider sans-serif fonts, in parts of the size.
DIGIT, LETTER = 0.64, 0.56


def get_style(text, root):
    """Size and anchor: attributes, or CSS as Matplotlib writes it."""
    style = dict(part.strip().split(": ", 1) for part in text.get("style", "").split(";") if part)
    size = re.match(r"([\d.]+)px", style.get("font", ""))
    return (float(size.group(1) if size else text.get("font-size", root.get("font-size", 12))),
            style.get("text-anchor", text.get("text-anchor", "start")))


def get_box(text, root):
    """Left, top, right, bottom."""
    size, anchor = get_style(text, root)
    words = "".join(text.itertext())
    width = sum(DIGIT if c.isdigit() else LETTER for c in words) * size
    part = {"start": 0, "middle": 0.5, "end": 1}[anchor]
    left = float(text.get("x")) - part * width
    base = float(text.get("y"))
    return left, base - 0.75 * size, left + width, base


def is_turned(text):
    """Such a one stands alone beside the axis."""
    transform = text.get("transform")
    return transform is not None and not re.match(r"rotate\(-?0(\.0)? ", transform)


def find_faults(path):
    root = xml.etree.ElementTree.parse(path).getroot()
    _, _, width, height = map(float, root.get("viewBox").split())
    texts = [text for text in root.iter(f"{SVG}text") if not is_turned(text)]
    boxes = [(get_box(text, root), "".join(text.itertext())) for text in texts]
    boxes.sort(key=lambda item: item[0])
    if not boxes:
        yield "has no texts that could be read"
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
    n_bytes = sum(path.stat().st_size for path in paths)
    if n_bytes > MAX_BYTES:
        n_faults += 1
        print(f"All plots have {n_bytes} bytes, more than {MAX_BYTES}")
    print(f"{len(paths)} plots of {n_bytes} bytes, {n_faults} faults")
    return 0 if paths and n_faults == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
