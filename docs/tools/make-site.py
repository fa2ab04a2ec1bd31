#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Makes the site: gi-docgen's pages of the API, and every other page in the same frame.

    make-site.py GI-DOCGEN ROOT WORK OUTPUT SECTION:NAME:ORIGIN… -- GIR CONFIG PAGE.md…

ROOT is the source tree. The pages are shown as NAME.html in the list SECTION of the
navigation, in the order of their names; where one was made from another file of the tree,
ORIGIN is that file, else it is empty: links are relative to it. The pages that CONFIG names in [extra] content_files come first, in a section “Library”. Links
between files of the tree become links between pages; a link to a file that is no page
becomes text, one to nothing is an error; images go along. The page “landing” is where the site begins,
index.html; gi-docgen's page of that name is api.html. site.css is added to the style.
"""

import html
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import pages

IMAGE = re.compile(r"!\[([^\]]+)\]\(([^):]+\.(?:png|svg))\)")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)([^)#]+)(#[^)]*)?\)")
METHOD = re.compile(r"`((?:[\w.]+\.)?([A-Z]\w+)\(\))`")
MAN_REFERENCE = re.compile(r"`([\w.-]+)\((\d)\)`(?!\])")
COMMENT = re.compile(r"<!--.*?-->\n?", re.S)
# Longer code in a sentence has to be broken on a small screen.
SHORT_CODE = re.compile(r"(?<!<pre>)<code>([^<\n]{1,32})</code>")
SIDEBAR_END = '<div class="section generator">'


class Page:
    def __init__(self, argument, path, root):
        self.section, self.name, origin = argument.split(":")
        self.path = path
        self.origin = pathlib.Path(os.path.abspath(root / origin if origin else path))
        self.text = pages.read(self.path)
        match = re.match(r"# (.+)\n", self.text)
        if match is None:
            sys.exit(f"make-site: {path} does not begin with a title")
        self.title = match.group(1)
        man = pages.MAN_TITLE.match(match.group(0).strip())
        self.short = f"{man.group(1)}({man.group(2)})" if man else self.title


def rewrite_link(match, page, names, root):
    text, target, fragment = match.group(1), match.group(2), match.group(3) or ""
    path = pathlib.Path(os.path.normpath(page.origin.parent / target))
    if path in names:
        return f"[{text}]({names[path]}.html{fragment})"
    if not path.is_relative_to(root) or not path.exists():
        sys.exit(f"make-site: {page.path}: there is no {target}")
    return text


def rewrite_image(match, page, images):
    path = pathlib.Path(os.path.normpath(page.origin.parent / match.group(2)))
    if not path.is_file():
        sys.exit(f"make-site: {page.path}: there is no {match.group(2)}")
    images.add(path)
    return f"![{match.group(1)}]({path.name})"


def shape(page, names, manuals, images, root):
    """The page as gi-docgen wants it: a title before it, and code between fences, where its
    own markup is left alone."""
    out = [f"Title: {page.short}", ""]
    headings = set(re.findall(r"^### (\w+)$", page.text, re.M))
    for is_code, lines in pages.split_code(COMMENT.sub("", page.text)):
        if is_code:
            out += ["", "```", *lines, "```", ""]
            continue
        text = IMAGE.sub(lambda m: rewrite_image(m, page, images), "\n".join(lines))
        text = LINK.sub(lambda m: rewrite_link(m, page, names, root), text)
        text = MAN_REFERENCE.sub(
            lambda m: f"[`{m.group(1)}({m.group(2)})`]({manuals[m.group(0)]}.html)"
            if m.group(0) in manuals else m.group(0), text)
        text = METHOD.sub(
            lambda m: f"[{m.group(0)}](#{m.group(2).lower()})"
            if m.group(2) in headings else m.group(0), text)
        out.append(text)
    return "\n".join(out) + "\n"


def make_config(config, content_files):
    """CONFIG with all pages in [extra] content_files."""
    text = pages.read(config)
    names = ", ".join(f'"{name}"' for name in content_files)
    text, n_lists = re.subn(r"^content_files\s*=\s*\[.*?\]", f"content_files = [{names}]", text,
                            flags=re.M | re.S)
    if n_lists == 0:
        text += f"\n[extra]\ncontent_files = [{names}]\n"
    return text


def make_navigation(entries, current):
    """The lists of all pages, for the side of each page."""
    out, section = [], None
    for group, name, title in entries:
        if group != section:
            out += ["</div></div>"] if section else []
            out.append(f'<div class="section"><h5>{html.escape(group)}</h5><div class="links">')
            section = group
        mark = ' class="current"' if name == current else ""
        out.append(f'<a{mark} href="{name}">{html.escape(title)}</a>')
    return "\n".join(out + ["</div></div>", ""])


def read_title(path):
    match = re.match(r"Title: (.+)\n", pages.read(path))
    if match is None:
        sys.exit(f"make-site: {path} does not begin with “Title: …”")
    return match.group(1)


def main():
    if "--" not in sys.argv:
        sys.exit(__doc__)
    split = sys.argv.index("--")
    gi_docgen = sys.argv[1]
    root, work, output = (pathlib.Path(os.path.abspath(path)) for path in sys.argv[2:5])
    gir, config, *sources = sys.argv[split + 1:]
    all_pages = [Page(argument, path, root)
                 for argument, path in zip(sys.argv[5:split], sources, strict=True)]
    names = {page.origin: page.name for page in all_pages}
    manuals = {f"`{page.short}`": page.name for page in all_pages if page.short != page.title}

    with open(config, "rb") as file:
        guides = tomllib.load(file).get("extra", {}).get("content_files", [])
    # The pages of the library lie beside its configuration.
    library = pathlib.Path(os.path.abspath(config)).parent
    for folder in (work, output):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    # what has a page though it is no file of Markdown that is given here
    names |= {library_folder / name: name.removesuffix(".md") for name in guides
              for library_folder in (library, root / "libllmsvc/docs")}
    names |= {root / f"docs/{page.name}": page.name for page in all_pages if page.name == "captures"}
    images = set()
    for page in all_pages:
        pages.write(work / f"{page.name}.md", shape(page, names, manuals, images, root))
    files = guides + [f"{page.name}.md" for page in all_pages]
    pages.write(work / "site.toml", make_config(config, files))
    done = subprocess.run(
        [gi_docgen, "generate", "--quiet", "--fatal-warnings", "--no-namespace-dir",
         "--config", work / "site.toml", "--content-dir", work, "--content-dir", library,
         "--output-dir", output, gir], check=False)
    if done.returncode != 0:
        sys.exit(f"make-site: {gi_docgen} failed")

    for image in images:
        shutil.copy(image, output)
    with open(output / "style.css", "a", encoding="utf-8") as style:
        style.write(pages.read(pathlib.Path(__file__).parent / "site.css"))
    os.rename(output / "index.html", output / "api.html")
    entries = [("Library", "api.html", "API reference")]
    entries += [("Library", name.replace(".md", ".html"), read_title(library / name))
                for name in guides]
    entries += [(page.section, f"{page.name}.html", page.short) for page in all_pages]
    for path in sorted(output.glob("*.html")):
        text = pages.read(path)
        if text.count(SIDEBAR_END) != 1:
            sys.exit(f"make-site: {path.name}: gi-docgen's frame is another one than expected")
        navigation = make_navigation(entries, path.name)
        text = text.replace("index.html#", "api.html#").replace(SIDEBAR_END, navigation + SIDEBAR_END)
        if path.name == "captures.html":
            text = text.replace("<body", '<body class="screens"', 1)
        pages.write(path, SHORT_CODE.sub(r'<code class="whole">\1</code>', text).replace(
            'href="landing.html', 'href="index.html'))
    os.rename(output / "landing.html", output / "index.html")


if __name__ == "__main__":
    main()
