# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a shell waits for: one property read by llmctl from its start to its end, beside the same
question by the general tools of the bus, interleaved, while the service runs; and the candidates of
a completion."""
import contextlib
import os
import shutil
import time

from lib import bus, figures

# The name of the figure, the program's option, the words behind it.
COMMANDS = (
    ("llmctl get Version", "llmctl", ("get", "Version")),
    ("llmctl get INTERFACE.Version", "llmctl", ("get", bus.SERVICE + ".Version")),
    ("llmctl --session-bus get INTERFACE.Version", "llmctl",
     ("--session-bus", "get", bus.SERVICE + ".Version")),
    ("busctl get-property", "busctl",
     ("--user", "get-property", bus.NAME, bus.PATH, bus.SERVICE, "Version")),
    ("gdbus call Properties.Get", "gdbus",
     ("call", "--session", "-d", bus.NAME, "-o", bus.PATH, "-m", bus.PROPERTIES + ".Get",
      bus.SERVICE, "Version")),
    ("llmctl --version", "llmctl", ("--version",)),
    ("llmctl complete -- call", "llmctl", ("complete", "--", "call", "")),
)


def time_command(name, words, environment):
    """Milliseconds from the start of a program to its end."""
    begin = time.monotonic()
    pid = os.posix_spawn(words[0], words, environment, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
    status = os.waitpid(pid, 0)[1]
    ms = (time.monotonic() - begin) * 1000
    if status != 0:
        raise SystemExit(f"llmsvc-bench: {name} failed")
    return ms


def main(arguments):
    parser = figures.Options("cli", __doc__)
    parser.add("llmctl", meta="FILE", help="The llmctl to measure")
    parser.add("daemon", meta="FILE", help="The llmsvcd that it asks")
    parser.add("model", meta="FILE", help="The GGUF file of the service")
    parser.add("busctl", meta="FILE", default=shutil.which("busctl"),
               help="The busctl to compare with (from PATH)")
    parser.add("gdbus", meta="FILE", default=shutil.which("gdbus"),
               help="The gdbus to compare with (from PATH)")
    parser.add("runs", int, 51, help="Samples of each figure (51)")
    parser.add_flag("json", "One JSON object")
    options = parser.parse_args(arguments)
    if None in (options.llmctl, options.daemon, options.model) or options.runs < 1:
        parser.error("--llmctl FILE, --daemon FILE and --model FILE are needed")
    found = figures.Figures()
    with contextlib.closing(bus.PrivateBus(options.daemon, options.model)) as private:
        environment = {**os.environ, "DBUS_SESSION_BUS_ADDRESS": private.address}
        private.connection.get(bus.SERVICE, "Version")
        for run in range(-1, options.runs):
            for name, program, words in COMMANDS:
                path = getattr(options, program)
                if path is not None:
                    ms = time_command(name, [path, *words], environment)
                    # The first one reads the programs from storage.
                    if run >= 0:
                        found.add(name, "ms", ms)
    found.print(options.json)
    return 0
