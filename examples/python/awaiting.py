# SPDX-License-Identifier: LGPL-2.1-or-later

"""“await” for the asynchronous functions of GObject libraries, in GLib's main loop.

    answer = await call(client, "complete", prompt, options, cancellable)

begins client.complete_async() and gives back what client.complete_finish() does.
Copy this file into your program.
"""

from gi.repository import GLib


class call:
    """One asynchronous call, to be awaited: the function NAME_async() of SOURCE."""

    def __init__(self, source, name, *arguments):
        self.begin = getattr(source, name + "_async")
        self.finish = getattr(source, name + "_finish")
        self.arguments = arguments

    def __await__(self):
        return self.finish((yield self))


def start(coroutine):
    """Runs a coroutine in the main loop; its exceptions are its own to catch."""

    def resume(result=None):
        try:
            waiting = coroutine.send(result)
        except StopIteration:
            return
        waiting.begin(*waiting.arguments, lambda _source, outcome, *_: resume(outcome))

    resume()


def run(coroutine):
    """Runs a coroutine in a main loop of its own and gives back what it returns or raises."""
    loop = GLib.MainLoop()
    outcome = []

    async def run_and_quit():
        try:
            outcome[:] = [await coroutine, None]
        except Exception as error:
            outcome[:] = [None, error]
        GLib.idle_add(loop.quit)

    start(run_and_quit())
    loop.run()
    value, error = outcome
    if error is not None:
        raise error
    return value
