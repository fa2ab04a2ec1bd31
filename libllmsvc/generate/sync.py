#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Makes the synchronous twin of each pair X_async() and X_finish() of the library.

    sync.py HEADER SOURCE OUT…

OUT… are the sources with the pairs, from which comments, arguments and checks of the twins
come: what X_async() takes but its callback, what X_finish() gives, and the comments of both.
"""

import pathlib
import re
import sys

FUNCTION = re.compile(r"/\*\*\n \* (llmsvc_\w+)_(async|finish):\n((?: \*[^/\n]?[^\n]*\n)*?) \*/\n"
                      r"(\w[^\n]*)\n\1_\2 \(([^)]*)\)\n\{\n(.*?)\n\}\n", re.S)
LICENSE = "/* SPDX-License-Identifier: LGPL-2.1-or-later */\n"
HEADER = LICENSE + """
/*
 * The synchronous twins, for programs without a main loop. They block the thread that calls
 * them, so an app with a window has no use for them; nothing else is dispatched meanwhile.
 * Each does what the function of the same name with _async does.
 */

#pragma once

#include "llmsvc-bus.h"
#include "llmsvc-client.h"
#include "llmsvc-context.h"
#include "llmsvc-generation.h"

G_BEGIN_DECLS
"""
SOURCE = LICENSE + """
#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "llmsvc-sync.h"

#include "calls/llmsvc-bus-private.h"
#include "calls/llmsvc-task.h"
#include "client/llmsvc-client-private.h"
#include "context/llmsvc-generation-private.h"
"""
# Connections tell in the main context that was the default when they were made that they are
# closed: that has to be the caller's, so they are made before the wait.
SEARCHES = ("llmsvc_bus_find", "llmsvc_client_new")


def read_comment(text):
    """Returns {argument: its comment}, the description, and what is returned."""
    text = re.sub(r"^ \* ?", "", text, flags=re.M)
    arguments = dict(re.findall(r"^@(\w+): (.*?)\n(?=@|\n)", text, re.M | re.S))
    description, _, rest = text[text.index("\n\n") + 2:].partition("\n\nReturns: ")
    return arguments, description.partition("\n\nSince")[0], rest.partition("\n\nSince")[0]


def split(arguments):
    """Returns [(type, name)]."""
    return [re.fullmatch(r"(.*?)(\w+)", " ".join(argument.split())).groups()
            for argument in arguments.split(",")]


def link(name):
    owner, method = re.fullmatch(r"llmsvc_([a-z]+)_(\w+)", name).groups()
    if name.startswith(("llmsvc_bus", "llmsvc_client_new")):
        return f"{name}_async()"
    return f"[method@{owner.capitalize()}.{method}_async]"


def make(name, begin, finish):
    """Returns prototype and source of the twin."""
    began, description, _ = read_comment(begin[0])
    ended, _, returns = read_comment(finish[0])
    given = [(c_type, arg) for c_type, arg in split(begin[2])
             if arg not in ("callback", "user_data")]
    got = [(c_type, arg) for c_type, arg in split(finish[2]) if arg not in ("self", "result")]
    comments = {**ended, **began}

    comment = [f"{name}_sync:", *(f"@{arg}: {comments[arg]}" for _, arg in given + got), "",
               description, "", f"Blocks; see {link(name)}.", "", f"Returns: {returns}", "",
               "Since: 0.1"]
    comment = "\n".join(f" * {line}".rstrip() for line in "\n".join(comment).split("\n"))
    start = f"{finish[1]}{'' if finish[1].endswith('*') else ' '}{name}_sync ("
    arguments = f",\n{' ' * len(start)}".join(c_type + arg for c_type, arg in given + got)
    checks = "".join(f"  g_return_val_if_fail ({check}, 0);\n" for check in
                     re.findall(r"g_return_if_fail \((.*?)\);", begin[3], re.S))
    sent = ", ".join([arg for _, arg in given] + ["llmsvc_wait_on_ready", "&wait"])
    taken = ", ".join(["llmsvc_wait_for_result (&wait)"] + [arg for _, arg in got])
    if given[0][1] == "self":
        taken = "self, " + taken
    head = f"{start}{arguments})"
    searches = name in SEARCHES
    buses = "  g_auto(LlmsvcBuses) buses = { NULL, NULL };\n" if searches else ""
    connect = "  llmsvc_buses_connect (&buses, bus_type, cancellable);\n" if searches else ""
    warn = "\n  G_GNUC_WARN_UNUSED_RESULT" if finish[1].endswith("*") else ""
    return f"LLMSVC_AVAILABLE_IN_0_1\n{head}{warn};\n", f"""
/**
{comment}
 */
{head}
{{
{buses}  g_auto(LlmsvcWait) wait = {{ NULL, NULL, NULL }};

{checks}
{connect}  llmsvc_wait_begin (&wait);
  {name}_async ({sent});
  return {name}_finish ({taken});
}}
"""


def main():
    functions = {}
    for path in sys.argv[3:]:
        for match in FUNCTION.finditer(pathlib.Path(path).read_text(encoding="utf-8")):
            name, half, *rest = match.groups()
            functions.setdefault(name, {})[half] = rest
    twins = [make(name, pair["async"], pair["finish"]) for name, pair in functions.items()]
    pathlib.Path(sys.argv[1]).write_text(
        HEADER + "\n" + "".join(twin[0] for twin in twins) + "\nG_END_DECLS\n", encoding="utf-8")
    pathlib.Path(sys.argv[2]).write_text(SOURCE + "".join(twin[1] for twin in twins),
                                         encoding="utf-8")


main()
