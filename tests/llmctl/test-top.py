# SPDX-License-Identifier: LGPL-2.1-or-later
"""llmctl top: on a terminal, in pipes, and over the end and the new start of the service."""
import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

import rig
import screen

SLOW_MS = 600000
RULES = [
    {"when": {"contains": "slow"}, "pieces": ["It begins ", "and goes on."],
     "piece-delay-ms": SLOW_MS},
    {"text": "You said: {prompt}"},
]
# A shell's part: a job of its own in the foreground, without which nothing can be stopped.
SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
KEYS = "q quit   s sort (memory)   p pause   h help"


class Top(unittest.TestCase):
    def setUp(self):
        self.rig = rig.Rig({"rules": RULES}, activatable=False)
        self.terminals = []

    def tearDown(self):
        for terminal in self.terminals:
            if terminal.process.poll() is None:
                terminal.process.kill()
                terminal.process.wait(rig.LIMIT_S)
        self.rig.close()

    def open(self, *arguments, columns=80, rows=24, term="xterm", shell=(), **environment):
        terminal = rig.Terminal([*shell, rig.LLMCTL, "top", "--interval", "0.2", *arguments],
                                dict(self.rig.environment, TERM=term, **environment), columns, rows)
        terminal.screen = screen.Screen(columns, rows)
        self.terminals.append(terminal)
        return terminal

    def wait_for(self, terminal, condition):
        """Until the screen is so. Returns its text."""
        end = time.monotonic() + rig.LIMIT_S
        while True:
            shown = terminal.screen.feed(terminal.text)
            if condition(shown):
                return shown.text
            self.assertLess(time.monotonic(), end, f"never so; last:\n{shown.text}")
            terminal.read(1)

    def wait_for_text(self, terminal, *texts):
        return self.wait_for(terminal, lambda shown: all(text in shown.text for text in texts))

    def get_modes(self, terminal):
        return termios.tcgetattr(terminal.master)[3] & (termios.ICANON | termios.ECHO)

    def finish(self, terminal, status=0):
        while terminal.read(rig.LIMIT_S):
            pass
        self.assertEqual(terminal.process.wait(rig.LIMIT_S), status, terminal.text)
        terminal.screen.feed(terminal.text)
        self.check_left(terminal)
        os.close(terminal.master)

    def check_left(self, terminal):
        """The terminal is as it was."""
        self.assertEqual(terminal.screen.modes, {"7": True, "25": True, "1049": False})
        self.assertEqual(self.get_modes(terminal), termios.ICANON | termios.ECHO)

    # --- the screen ---

    def test_screen(self):
        asked = self.rig.run("ask", "--context", "notes", "Hello there")
        self.assertEqual(asked.status, 0, asked)
        terminal = self.open()
        # the terminal may be read between two halves of a line: the row of the context is whole
        text = self.wait_for(terminal, lambda shown: KEYS in shown.text and re.search(
            r"(?m)^notes +\w+ +\d+ .*\d", shown.text))
        self.assertEqual(self.get_modes(terminal), 0)
        self.assertEqual(terminal.screen.modes, {"7": True, "25": False, "1049": True})
        lines = text.split("\n")
        self.assertEqual(lines[23], KEYS)
        for wanted in ("llmsvc 0.1.0  ready, on the session bus", "Model  Mock model",
                       "Pressure  none", "Calls  0 under way", "Tokens/s", "Memory by holder",
                       "In time    last minute  since start", "weights",
                       "on storage", "all"):
            self.assertIn(wanted, text)
        self.assertFalse(terminal.screen.overflown)
        self.assertIn("32", terminal.screen.styles)
        terminal.send("q")
        self.finish(terminal)

    def test_keys(self):
        terminal = self.open()
        self.wait_for_text(terminal, KEYS)
        terminal.send("h")
        self.wait_for_text(terminal, "sort by memory, tokens or name", "pause, and go on")
        terminal.send("h")
        self.wait_for(terminal, lambda shown: "pause, and go on" not in shown.text)
        terminal.send("s")
        self.wait_for_text(terminal, "s sort (tokens)")
        terminal.send("s")
        self.wait_for_text(terminal, "s sort (name)")
        # neither an arrow key nor rubbish is a key of ours
        terminal.send("\x1b[A\x1bOP\x01Ä")
        terminal.send("s")
        self.wait_for_text(terminal, KEYS)
        terminal.send("p")
        self.wait_for_text(terminal, "paused")
        terminal.send("p")
        self.wait_for(terminal, lambda shown: "paused" not in shown.text)
        terminal.send("Q")
        self.finish(terminal)

    def test_pause(self):
        terminal = self.open()
        self.wait_for_text(terminal, "since start", KEYS)
        terminal.send("p")
        self.wait_for_text(terminal, "paused")
        self.rig.run("ask", "--context", "later", "Hello there")
        time.sleep(1)
        terminal.read(0)
        self.assertNotIn("later", terminal.screen.feed(terminal.text).text)
        terminal.send("p")
        self.wait_for_text(terminal, "later")
        terminal.send("q")
        self.finish(terminal)

    def test_sizes(self):
        """A size that changes, and sizes for which nothing was made."""
        for i in range(30):
            self.rig.run("context", "new", f"context-{i:02}-with-a-name-that-is-rather-long-Ä")
        terminal = self.open()
        self.wait_for_text(terminal, "context-00", KEYS)
        for columns, rows in ((120, 40), (40, 10), (20, 3), (1, 1), (300, 100), (80, 24)):
            terminal.screen = screen.Screen(columns, rows)
            terminal.read(0)
            terminal.screen.fed = len(terminal.text)
            fcntl.ioctl(terminal.master, termios.TIOCSWINSZ,
                        struct.pack("HHHH", rows, columns, 0, 0))
            terminal.process.send_signal(signal.SIGWINCH)
            # what is on its way is still of the other size, but then all is drawn anew
            self.wait_for(terminal, lambda shown: rows < 2 or
                          shown.lines[0].startswith("llmsvc"[:columns]) and
                          shown.lines[-1] == KEYS[:columns].rstrip())
            time.sleep(0.5)
            terminal.read(0)
            terminal.screen.feed(terminal.text)
            self.assertFalse(terminal.screen.overflown, terminal.screen.text)
        self.assertIn("context-00", self.wait_for_text(terminal, "context-00"))
        terminal.send("q")
        self.finish(terminal)

    def test_no_colours(self):
        terminal = self.open(NO_COLOR="1")
        self.wait_for_text(terminal, "since start", KEYS)
        terminal.send("q")
        self.assertEqual(terminal.finish(), 0)
        # but for what makes sure that there is none
        self.assertLessEqual(terminal.screen.feed(terminal.text).styles, {"", "0"})

    def test_ascii(self):
        terminal = self.open(LC_ALL="C")
        self.wait_for_text(terminal, "since start", KEYS, "....")
        terminal.send("q")
        self.finish(terminal)
        self.assertNotRegex(terminal.text, "[^\x00-\x7f]")

    def test_hostile_name(self):
        """A name can't send the terminal anything."""
        outcome = self.rig.run("context", "new", "red\x1b[31m\x9b31mend\x07")
        terminal = self.open()
        self.wait_for_text(terminal, *([KEYS] if outcome.status else ["red", KEYS]))
        terminal.send("q")
        self.finish(terminal)

    # --- how it ends ---

    def test_signals(self):
        for number, status in ((signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGHUP, 0),
                               (signal.SIGSEGV, -signal.SIGSEGV),
                               (signal.SIGABRT, -signal.SIGABRT),
                               (signal.SIGQUIT, -signal.SIGQUIT)):
            with self.subTest(signal=number):
                terminal = self.open()
                self.wait_for_text(terminal, KEYS)
                terminal.process.send_signal(number)
                self.finish(terminal, status)

    def test_interrupt_key(self):
        terminal = self.open()
        self.wait_for_text(terminal, KEYS)
        terminal.send("\x03")
        self.finish(terminal)

    def test_stop_and_go_on(self):
        terminal = self.open(shell=(sys.executable, "-c", SHELL))
        self.wait_for_text(terminal, KEYS)
        shell = terminal.process.pid
        with open(f"/proc/{shell}/task/{shell}/children", encoding="utf-8") as file:
            pid = int(file.read())
        for by_key in (True, False):
            self.stop(terminal, lambda shown: not shown.modes["1049"], None if by_key else pid)
            self.wait_for_state(pid, "T")
            self.check_left(terminal)
            os.kill(pid, signal.SIGCONT)
            self.wait_for(terminal, lambda shown: shown.modes["1049"] and KEYS in shown.text)
            self.assertEqual(self.get_modes(terminal), 0)
        terminal.send("q")
        self.finish(terminal)

    def test_stop_without_shell(self):
        """Nobody could let it go on, so the kernel does not stop it; then it is drawn again."""
        terminal = self.open()
        self.wait_for_text(terminal, KEYS)
        self.stop(terminal, lambda shown: terminal.text.count("\x1b[?1049h") >= 2,
                  terminal.process.pid)
        terminal.send("s")
        self.wait_for_text(terminal, "s sort (tokens)")
        terminal.send("q")
        self.finish(terminal)

    def stop(self, terminal, condition, pid):
        """Again, as ncurses hears nothing of it while it draws; by the key without a `pid`."""
        end = time.monotonic() + rig.LIMIT_S
        while not condition(terminal.screen.feed(terminal.text)):
            self.assertLess(time.monotonic(), end, terminal.screen.text)
            if pid:
                os.kill(pid, signal.SIGTSTP)
            else:
                terminal.send("\x1a")
            after = time.monotonic() + 1
            while time.monotonic() < after and not condition(terminal.screen.feed(terminal.text)):
                terminal.read(0.1)

    def wait_for_state(self, pid, letter):
        end = time.monotonic() + rig.LIMIT_S
        while True:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                if file.read().rpartition(")")[2].split()[0] == letter:
                    return
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def test_terminal_goes(self):
        terminal = self.open()
        self.wait_for_text(terminal, KEYS)
        os.close(terminal.master)
        self.assertEqual(terminal.process.wait(rig.LIMIT_S), 0)

    # --- the service comes and goes ---

    def test_restart(self):
        terminal = self.open()
        self.rig.run("ask", "--context", "anna", "Hello there")
        self.wait_for_text(terminal, "ready, on the session bus", "anna")
        self.rig.stop(signal.SIGKILL)
        text = self.wait_for_text(terminal, "llmsvc is not running")
        self.assertNotIn("anna", text)
        self.assertIn(KEYS, text)
        self.rig.start()
        self.wait_for_text(terminal, "ready, on the session bus")
        terminal.send("q")
        self.finish(terminal)

    def test_silent(self):
        """A service that hangs is shown as that, and the keys go on working."""
        terminal = self.open()
        self.wait_for_text(terminal, "ready, on the session bus")
        self.rig.daemon.send_signal(signal.SIGSTOP)
        try:
            self.wait_for_text(terminal, "llmsvc does not answer")
            terminal.send("q")
            self.finish(terminal)
        finally:
            self.rig.daemon.send_signal(signal.SIGCONT)

    def test_bus_goes(self):
        terminal = self.open()
        self.wait_for_text(terminal, KEYS)
        self.rig.stop()
        self.rig.bus.terminate()
        self.finish(terminal, 4)
        self.assertIn("The connection to the bus has ended", terminal.text)

    def test_does_not_start(self):
        self.rig.close()
        self.rig = rig.Rig({"rules": RULES}, activatable=True)
        outcome = self.rig.run("top", "--once")
        self.assertEqual(outcome.status, 4, outcome)
        self.assertIn("is not running; the first question starts it", outcome.output)
        self.assertEqual(self.rig.get_pid(), 0)

    # --- without a screen ---

    def test_batch(self):
        self.rig.run("ask", "--context", "notes", "Hello there")
        for arguments in (("-b", "-n", "2"), ("--batch", "--count", "2")):
            outcome = self.rig.run("top", "--interval", "0.2", *arguments)
            self.assertEqual(outcome.status, 0, outcome)
            self.assertEqual(outcome.output.count("llmsvc 0.1.0"), 2)
            self.assertRegex(outcome.output, r"(?m)^notes +\w+ +\d+ ")
            self.assertNotIn("\x1b", outcome.output)
            self.assertNotIn("q quit", outcome.output)
            for line in outcome.output.splitlines():
                self.assertLessEqual(len(line), 80, line)
        outcome = self.rig.run("top", "--once")
        self.assertEqual(outcome.output.count("llmsvc 0.1.0"), 1)

    def test_dumb(self):
        terminal = self.open("-n", "1", term="dumb")
        self.assertEqual(terminal.finish(), 0)
        self.assertRegex(terminal.text, "(ready|loading), on the session bus")
        self.assertNotIn("\x1b", terminal.text)

    def test_closed_pipe(self):
        process = self.rig.spawn("top", "--interval", "0.2")
        self.assertIn("llmsvc", process.stdout.readline())
        process.stdout.close()
        self.assertEqual(process.wait(rig.LIMIT_S), -signal.SIGPIPE)
        process.stderr.close()

    def test_json(self):
        """The figures of a call under way, and of one that has ended."""
        process = self.rig.spawn("ask", "--context", "busy", "a slow one")
        try:
            self.assertTrue(process.stdout.read(5))
            outcome = self.rig.run("top", "--json", "-n", "2", "--interval", "0.2")
        finally:
            process.kill()
            process.wait(rig.LIMIT_S)
            process.stdout.close()
            process.stderr.close()
        self.assertEqual(outcome.status, 0, outcome)
        first, second = map(json.loads, outcome.output.splitlines())
        for look in (first, second):
            self.assertTrue(look["running"])
            self.assertEqual(look["service"]["availability"], "ready")
            self.assertEqual(look["statistics"]["calls"], 1)
            self.assertEqual(look["model"]["id"], "mock")
            self.assertEqual([context["name"] for context in look["contexts"]], ["busy"])
            self.assertEqual(look["states"], ["decode"])
            self.assertEqual(look["apps"][0]["requests"], 1)
            self.assertEqual(look["last-minute"]["slo-met"], 0)
        self.assertEqual(first["rates"], {})
        self.assertEqual(second["rates"]["output-tokens"], 0)

    def test_growth(self):
        """What answers add within the time that is watched is in the rates and the minute."""
        process = self.rig.spawn("top", "--json", "--interval", "0.3")
        try:
            self.assertEqual(json.loads(process.stdout.readline())["statistics"]["requests"], 0)
            self.rig.run("ask", "Hello there")
            has_rate = False
            for line in process.stdout:
                look = json.loads(line)
                has_rate = has_rate or look["rates"]["output-tokens"] > 0
                if look["statistics"]["requests"] == 1 and has_rate:
                    minute = look["last-minute"]
                    self.assertEqual(minute["slo-met"] + minute["slo-missed"], 1)
                    break
        finally:
            process.terminate()
            self.assertEqual(process.wait(rig.LIMIT_S), 0)
            process.stdout.close()
            process.stderr.close()

    def test_wrong_use(self):
        for arguments in (("--interval", "0"), ("--interval", "0.01"), ("--interval", "1e9"),
                          ("--interval", "nan"), ("--count", "-1"), ("more",)):
            outcome = self.rig.run("top", "--once", *arguments)
            if arguments == ("--interval", "0"):
                self.assertEqual(outcome.status, 0, outcome)
                continue
            self.assertEqual(outcome.status, 2, (arguments, outcome))

    def test_idle(self):
        """A service that nobody asks anything is asked no more than two or three things a look."""
        monitor = subprocess.Popen(
            ["dbus-monitor", "--session", "type=method_call,destination=org.llm.Service"],
            env=self.rig.environment, stdout=subprocess.PIPE, text=True)
        try:
            while "NameLost" not in monitor.stdout.readline():
                pass
            outcome = self.rig.run("top", "-b", "-n", "8", "--interval", "0.2")
            self.assertEqual(outcome.status, 0, outcome)
        finally:
            monitor.terminate()
        calls = [line for line in monitor.stdout if line.startswith("method call")]
        monitor.stdout.close()
        monitor.wait(rig.LIMIT_S)
        # lists and the model once, and three for each look
        self.assertLessEqual(len(calls), 8 * 3 + 6, calls)
        self.assertGreaterEqual(len(calls), 8 * 3)



class TopMemory(unittest.TestCase):
    """With a real model: what is shown as memory means the same everywhere, and adds up."""
    UNITS = {"byte": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
    ROWS = ("weights", "contexts", "compressed contexts", "other")

    def setUp(self):
        self.rig = rig.Rig()

    def tearDown(self):
        self.rig.close()

    def look(self):
        """What “memory” and “top” show while nothing moves."""
        end = time.monotonic() + rig.LIMIT_S
        while True:
            memory = self.rig.json("memory")
            looks = (memory, self.rig.json("top", "--once"), self.rig.run("memory").output,
                     self.rig.run("top", "--once").output)
            if memory["kv-swapped"] > 0 and memory == self.rig.json("memory"):
                return looks
            self.assertLess(time.monotonic(), end, f"never so; last: {memory}")

    def parse(self, text):
        """Bytes, and what may be missing after rounding to one place."""
        number, unit = text.split()
        return float(number) * self.UNITS[unit], 0.05 * self.UNITS[unit]

    def assert_sum(self, parts, whole):
        parts = [self.parse(part) for part in parts]
        whole, rounded = self.parse(whole)
        self.assertAlmostEqual(sum(part for part, _ in parts), whole,
                               delta=rounded + sum(part for _, part in parts) + 1)

    def test_one_meaning(self):
        for name in ("first", "second", "third"):
            asked = self.rig.run("ask", "--context", name, "--max-tokens", "8",
                                 f"Find me a comedy movie, for the {name} time.")
            self.assertEqual(asked.status, 0, asked)
        memory, top, shown, lines = self.look()
        lines = lines.splitlines()
        self.assertEqual(top["memory"], memory)
        self.assertEqual(top["statistics"]["kv-storage-bytes"], memory["kv-swapped"])
        self.assertEqual(sum(one["storage-bytes"] for one in top["contexts"]), memory["kv-swapped"])
        held = memory["kv-resident"] + memory["kv-compressed"]
        of_contexts = sum(one["memory-bytes"] for one in top["contexts"])
        self.assertEqual(sum(one["memory"] for one in top["apps"]), of_contexts)
        # the rest are beginnings that are kept as they were computed
        self.assertLess(of_contexts, held)
        self.assertGreater(of_contexts, memory["kv-compressed"])
        self.assertLessEqual(memory["weights"] + held, memory["resident"])

        # the same for people: rows add up to what they are part of
        rows = dict(re.findall(r"(?m)^  (\S.*?)  +(\d[\d.]*\s\w+)$", shown.split("Could be")[0]))
        self.assert_sum([rows[name] for name in self.ROWS], rows["held"])

        rows = dict(re.findall(r"(?m)^  ([a-z ]+?)  +(\d[\d.]*\s\w+)", "\n".join(lines)))
        self.assert_sum([rows[name] for name in ("weights", "contexts", "compressed", "other")],
                        re.search(r"held (\d[\d.]*\s\w+)", "\n".join(lines)).group(1))
        heads = [i for i, line in enumerate(lines) if re.match("(Application|Context) ", line)]
        self.assertEqual(len(heads), 2)
        for i in heads:
            sizes = [re.findall(r"\d[\d.]*\s(?:bytes?|[KMG]iB)", line) for line in
                     lines[i + 1:i + 2 if i == heads[0] else None]]
            for place, column in enumerate(lines[i].split()[-2:]):
                if column == "Storage":
                    self.assert_sum([size[place] for size in sizes], rows["on storage"])
                elif column == "Memory":
                    self.assert_sum([size[place] for size in sizes], f"{of_contexts / 1024} KiB")


class Short(unittest.TestCase):
    """Chunks that were quantized further, of a service without storage."""

    def test_chunks(self):
        service = rig.Rig()
        self.addCleanup(service.close)
        (service.folder / "llmsvc.conf").write_text("[contexts]\ndisk=off\n")
        service.stop()
        service.start()
        outcome = service.run("ask", "--context", "a", "--max-tokens", "4", "I want a table. " * 30)
        self.assertEqual(outcome.status, 0, outcome)
        self.assertNotIn("lack bits", service.run("top", "-b", "-n", "1").output)
        end = time.monotonic() + rig.LIMIT_S
        while time.monotonic() < end:
            outcome = service.run("call", "Trim", "medium", "target-bytes=1")
            self.assertEqual(outcome.status, 0, outcome)
            if service.json("stats")["kv-narrow-chunks"] > 0:
                break
            time.sleep(1.1)
        self.assertRegex(service.run("top", "-b", "-n", "1").output, r"\nChunks  lack bits: \d+\n")


if __name__ == "__main__":
    unittest.main()
