#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The site is whole: no dead link, and every page of the tree in the navigation of each.

Arguments: the folder of the site and the folders of its Markdown.
"""

import html.parser
import pathlib
import re
import sys
import urllib.parse


class Reader(html.parser.HTMLParser):
    """Collects what a page links to, and what can be linked to in it."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.ids = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.targets.add(value)
            elif name in ("id", "name") and value:
                self.ids.add(value)


def check_links(readers, folder):
    faults = []
    for name, reader in sorted(readers.items()):
        for target in sorted(reader.targets):
            url = urllib.parse.urlsplit(target)
            if url.scheme or url.netloc:
                continue
            to = urllib.parse.unquote(url.path) or name
            if not (folder / to).is_file():
                faults.append(f"{name}: there is no {to}")
            elif url.fragment and to in readers and url.fragment not in readers[to].ids:
                faults.append(f"{name}: {to} has no “{url.fragment}”")
    return faults


def list_titles(folders):
    """Returns {path: title} of the pages of Markdown in the tree."""
    return {path: re.search(r"^(?:Title: |# )(.+)$", path.read_text(encoding="utf-8"),
                            re.M).group(1)
            for folder in folders for path in sorted(pathlib.Path(folder).rglob("*.md"))}


def main():
    folder = pathlib.Path(sys.argv[1])
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.html"))}
    readers = {name: Reader(text) for name, text in texts.items()}
    faults = check_links(readers, folder)

    titles = list_titles(sys.argv[2:])
    for path, title in titles.items():
        short = re.sub(r"^([\w.-]+\(\d\)): .*", r"\1", title)
        link = re.compile(rf'<a[^>]* href="([^"]+)">{re.escape(short)}</a>')
        for name, text in texts.items():
            if not link.search(text.replace("&#x27;", "'")):
                faults.append(f"{name}: {path.name}, “{short}”, is not in the navigation")
                break

    for fault in faults:
        print(f"check-site: {fault}", file=sys.stderr)
    print(f"check-site: {len(texts)} pages, {len(titles)} of them from Markdown, "
          f"{len(faults)} faults")
    return 1 if faults or not texts or not titles else 0


if __name__ == "__main__":
    sys.exit(main())
