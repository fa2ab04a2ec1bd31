#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""An answer word by word as it is made. Ctrl-C stops it, here and at the service.

    ./stream.py "Find me a comedy movie."
"""

import signal
import sys

import gi

gi.require_version("Llmsvc", "1")
from gi.repository import Gio, GLib, Llmsvc

from awaiting import call, run


async def pieces(generation, cancellable):
    while (piece := await call(generation, "next", cancellable)) is not None:
        yield piece


async def stream(prompt, cancellable):
    client = await call(Llmsvc.Client, "new", Gio.BusType.NONE, None, cancellable)
    context = await call(client, "create_context", None, cancellable)
    options = Llmsvc.Options(max_tokens=64, temperature=0)
    generation = await call(context, "prompt", prompt, options, cancellable)
    async for piece in pieces(generation, cancellable):
        print(piece, end="", flush=True)
    print()


cancellable = Gio.Cancellable()
signal.signal(signal.SIGINT, lambda *_: cancellable.cancel())
try:
    run(stream(" ".join(sys.argv[1:]) or "Hello!", cancellable))
except GLib.Error as error:
    sys.exit(error.message)
