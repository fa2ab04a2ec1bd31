# SPDX-License-Identifier: LGPL-2.1-or-later
"""llmctl chat as a person uses it, on a terminal, and as a script does, through pipes."""
import json
import signal
import stat
import subprocess
import unittest

import rig

SLOW_MS = 600000
RULES = [
    {"when": {"contains": "slow"}, "pieces": ["It begins ", "and goes on."],
     "piece-delay-ms": SLOW_MS},
    {"when": {"contains": "broken"}, "text": "Half", "error": {"name": "NoMemory",
                                                              "message": "no room"}},
    {"when": {"contains": "refused"}, "error": {"name": "Overloaded", "message": "too much"}},
    {"when": {"contains": "escape"}, "text": "red \u001b[31m\u0007 end"},
    {"when": {"contains": "who", "system-contains": "pirate"}, "text": "Arr."},
    {"when": {"contains": "count", "turn": 2}, "text": "This is the second."},
    {"when": {"contains": "count", "turn": 1}, "text": "This is the first."},
    {"text": "You said: {prompt}"},
]


class Chat(unittest.TestCase):
    def setUp(self):
        self.rig = rig.Rig({"rules": RULES})
        self.history = self.rig.home / "state" / "llmsvc" / "chat-history"

    def tearDown(self):
        self.rig.close()

    def test_conversation(self):
        terminal = self.rig.terminal("chat")
        terminal.expect("/help lists the commands")
        terminal.say("Hello there")
        terminal.expect("You said: Hello there")
        terminal.say("")
        terminal.say("again")
        terminal.expect("You said: again")
        terminal.expect("> ")
        terminal.send("\x04")
        self.assertEqual(terminal.finish(), 0)

        self.assertEqual(self.history.read_text(), "Hello there\nagain\n")
        self.assertEqual(stat.S_IMODE(self.history.stat().st_mode), 0o600)

    def test_history(self):
        terminal = self.rig.terminal("chat", term="xterm")
        terminal.say("first\\")
        terminal.expect("| ")
        terminal.send("second\r")
        terminal.expect("You said: first")
        terminal.say(" secret")
        terminal.expect("You said:  secret")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)
        self.assertEqual(self.history.read_text(), "first\\nsecond\n/quit\n")

        # Two up: the one before /quit, in both of its lines.
        terminal = self.rig.terminal("chat", term="xterm")
        terminal.expect("> ")
        terminal.send("\x1b[A\x1b[A\r")
        terminal.expect("You said: first", "second")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)

    def test_history_is_bounded(self):
        self.history.parent.mkdir(parents=True)
        self.history.write_text("".join(f"entry {i}\n" for i in range(3000)))
        terminal = self.rig.terminal("chat")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)
        lines = self.history.read_text().splitlines()
        self.assertEqual(len(lines), 1001)
        self.assertEqual(lines[0], "entry 2000")
        self.assertEqual(stat.S_IMODE(self.history.stat().st_mode), 0o600)

    def test_stop_answer(self):
        terminal = self.rig.terminal("chat")
        terminal.say("slow one")
        terminal.expect("It begins")
        terminal.send("\x03")
        terminal.expect("this turn is not kept")
        terminal.say("count")
        terminal.expect("This is the first.")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)

    def test_stop_and_keep(self):
        terminal = self.rig.terminal("chat", "--option", "on-cancel=keep")
        terminal.say("slow one")
        terminal.expect("It begins")
        terminal.send("\x03")
        terminal.expect("what was written is kept")
        terminal.say("/messages")
        terminal.expect("user: slow one", "assistant: It begins")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)

    def test_clear_line(self):
        terminal = self.rig.terminal("chat")
        terminal.expect("> ")
        terminal.send("not this")
        terminal.expect("not this")
        terminal.send("\x03")
        terminal.expect("^C")
        terminal.say("half of it\\")
        terminal.expect("| ")
        terminal.send("\x03")
        terminal.expect("^C")
        terminal.say("but this")
        terminal.expect("You said: but this\r\n")
        self.assertNotIn("said: not", terminal.text)
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)

    def test_several_lines(self):
        terminal = self.rig.terminal("chat", term="xterm")
        terminal.say('"""')
        for line in ("one", "", "/two", '"""'):
            terminal.expect("| ")
            terminal.send(line + "\r")
        terminal.expect("You said: one\r\n\r\n/two")
        terminal.say("/multi")
        terminal.expect("| ")
        terminal.send("three\r")
        terminal.expect("| ")
        terminal.send('"""\r')
        terminal.expect("You said: three")
        terminal.expect("> ")
        terminal.send("\x1b[200~pasted\nin two\x1b[201~\r")
        terminal.expect("You said: pasted\r\nin two")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)

    def test_commands(self):
        file = self.rig.folder / "saved.json"
        terminal = self.rig.terminal("chat")
        terminal.say("/hlep")
        terminal.expect("“/hlep” is no command; did you mean “/help”?")
        terminal.say("/help")
        terminal.expect("/context [NAME]", "/tokens")
        terminal.say("//help")
        terminal.expect("You said: /help")
        terminal.say("/undo")
        terminal.expect("The last turn is forgotten")
        terminal.say("count")
        terminal.expect("This is the first.")
        terminal.say("/retry")
        terminal.expect("This is the first.")
        terminal.say("/messages")
        terminal.expect("user: count", "assistant: This is the first.")
        self.assertEqual(terminal.text.count("user: count"), 1)
        terminal.say("/undo")
        terminal.expect("forgotten")
        terminal.say("/retry")
        terminal.expect("This is the first.")
        terminal.say("/tokens")
        terminal.expect(" of 32768 tokens (")
        terminal.say(f"/save {file}")
        terminal.expect("Saved")
        terminal.say("/system You are a pirate")
        terminal.expect("A new conversation with this system text")
        terminal.say("who are you")
        terminal.expect("Arr.")
        terminal.say("/set max-tokens=3")
        terminal.say("/set")
        terminal.expect("max-tokens=3")
        terminal.say("cut")
        terminal.expect("You\r\n", "(cut off at max-tokens)")
        terminal.say("/set max-tokens=many")
        terminal.expect("max-tokens")
        terminal.say("/set max-tokens=")
        terminal.say("/model")
        terminal.expect("* mock")
        terminal.say("/model other")
        terminal.expect("llmctl: ")
        terminal.say("/quit now")
        terminal.expect("takes nothing behind it")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)

        saved = json.loads(file.read_text())
        self.assertEqual(saved["format"], "llmsvc-context")
        self.assertEqual([message["text"] for message in saved["messages"]],
                         ["count", "This is the first."])
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)

    def test_contexts(self):
        terminal = self.rig.terminal("chat", "--context", "notes")
        terminal.say("count")
        terminal.expect("This is the first.")
        self.assertIn("notes> count", terminal.text)
        terminal.say("/context")
        terminal.expect("* notes")
        terminal.say("/new")
        terminal.expect("A new conversation")
        terminal.say("count")
        terminal.expect("This is the first.")
        terminal.say("/context notes")
        terminal.expect("“notes” goes on")
        terminal.say("count")
        terminal.expect("This is the second.")
        terminal.say("/undo 1")
        terminal.expect("forgotten")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)
        self.assertEqual([message["text"] for message in
                          self.rig.json("context", "show", "notes")["messages"]],
                         ["count", "This is the first."])

    def test_completion(self):
        self.rig.json("context", "new", "notebook")
        terminal = self.rig.terminal("chat", term="xterm")
        terminal.expect("> ")
        terminal.send("/mes\t")
        terminal.expect("/messages ")
        terminal.send("\x15/set max-t\t")
        terminal.expect("/set max-tokens=")
        terminal.send("7\r")
        terminal.say("/set")
        terminal.expect("max-tokens=7")
        # The names are read in the background; a call that comes behind has them all.
        terminal.say("/tokens")
        terminal.expect("tokens (")
        terminal.expect("> ")
        terminal.send("/context note\t")
        terminal.expect("/context notebook ")
        terminal.send("\r")
        terminal.expect("“notebook” goes on")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)

    def test_failures(self):
        terminal = self.rig.terminal("chat")
        terminal.say("broken")
        terminal.expect("Half", "llmctl: no room", "/retry asks again")
        terminal.say("refused")
        terminal.expect("llmctl: too much")
        terminal.say("count")
        terminal.expect("This is the first.")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)

    def test_harmless(self):
        terminal = self.rig.terminal("chat")
        terminal.say("escape")
        terminal.expect("red \ufffd[31m\ufffd end")
        terminal.say("/messages")
        terminal.expect("assistant: red \ufffd[31m\ufffd end")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)

    def test_dumb_terminal(self):
        terminal = self.rig.terminal("chat", term="dumb")
        terminal.say("Hello")
        terminal.expect("You said: Hello")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)
        self.assertNotIn("\x1b", terminal.text)

    def test_terminate(self):
        terminal = self.rig.terminal("chat")
        terminal.say("slow")
        terminal.expect("It begins")
        terminal.process.send_signal(signal.SIGTERM)
        self.assertEqual(terminal.finish(), 130)

    def test_time_limit(self):
        terminal = self.rig.terminal("chat", "--timeout", "1")
        terminal.say("slow")
        terminal.expect("It begins", "The time limit has passed")
        terminal.say("Hello")
        terminal.expect("You said: Hello")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)

    def test_pipe(self):
        outcome = self.rig.run("chat", input='count\ncount\nlong \\\nline\n"""\na\n\nb\n"""\nlast')
        self.assertEqual(outcome.status, 0, outcome)
        self.assertEqual(outcome.output,
                         "This is the first.\nThis is the second.\nYou said: long \nline\n"
                         "You said: a\n\nb\nYou said: last\n")
        self.assertEqual(outcome.complaint, "")
        self.assertFalse(self.history.exists())

    def test_pipe_commands(self):
        outcome = self.rig.run("chat", input="count\n/undo\ncount\n/messages\n")
        self.assertEqual(outcome.status, 0, outcome)
        self.assertEqual(outcome.output, "This is the first.\nThis is the first.\n"
                                         "user: count\nassistant: This is the first.\n")
        outcome = self.rig.run("chat", input="/nothing\ncount\n")
        self.assertEqual(outcome.status, 2)
        self.assertEqual(outcome.output, "This is the first.\n")
        outcome = self.rig.run("chat", input="refused\ncount\n")
        self.assertEqual(outcome.status, 6)
        self.assertEqual(outcome.output, "This is the first.\n")

    def test_pipe_bytes(self):
        outcome = self.rig.run("chat", input=b"bad \xff\nNUL \0 here\ncount\n")
        self.assertEqual(outcome.status, 2)
        self.assertEqual(outcome.output, "This is the first.\n")
        self.assertEqual(outcome.complaint.count("not valid UTF-8"), 2)
        # Nothing is replaced where no terminal can be harmed.
        self.assertEqual(self.rig.run("chat", input="escape\n").output, "red \x1b[31m\x07 end\n")

    def test_pipe_json(self):
        outcome = self.rig.run("chat", "--json", input="count\n/help\nbroken\n")
        lines = [json.loads(line) for line in outcome.output.splitlines()]
        self.assertEqual(lines[0], {"version": 1, "t": "This is the first."})
        self.assertEqual(lines[1]["done"]["finish-reason"], "stop")
        self.assertEqual(lines[2], {"t": "You said: /help"})
        self.assertEqual(lines[4], {"t": "Half"})
        self.assertEqual(lines[5], {"error": {"name": "NoMemory", "message": "no room"}})
        self.assertEqual(outcome.status, 6)

    def test_pipe_interrupt(self):
        process = self.rig.spawn("chat", stdin=subprocess.PIPE)
        process.stdin.write("slow\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.read(10), "It begins ")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=rig.LIMIT_S)
        self.assertEqual(process.returncode, 130)

    def test_usage(self):
        self.assertEqual(self.rig.run("chat", "word").status, 2)
        self.assertEqual(self.rig.run("chat", "--option", "max-tokens=0").status, 2)
        self.rig.json("context", "new", "kept", "--system", "Be kind")
        outcome = self.rig.run("chat", "--context", "kept", "--system", "Be brief", input="Hi\n")
        self.assertIn("own system text", outcome.complaint)
        self.assertEqual(outcome.output, "You said: Hi\n")


class Restart(unittest.TestCase):
    """The service goes away in the middle of an answer and comes back."""

    RULES = [
        {"when": {"contains": "lost", "start": 1}, "pieces": ["The first half "],
         "exit": "before-keep"},
        {"when": {"contains": "kept", "start": 1}, "pieces": ["All of it."], "exit": "after-keep"},
        {"when": {"contains": "count", "turn": 2}, "text": "This is the second."},
        {"when": {"contains": "count", "turn": 1}, "text": "This is the first."},
        {"text": "You said: {prompt}"},
    ]

    def setUp(self):
        self.rig = rig.Rig({"rules": self.RULES}, activatable=True)

    def tearDown(self):
        self.rig.close()

    def test_named(self):
        terminal = self.rig.terminal("chat", "--context", "notes")
        terminal.say("count")
        terminal.expect("This is the first.")
        terminal.say("lost")
        terminal.expect("The first half", "llmctl: ", "/retry asks again")
        terminal.say("/retry")
        terminal.expect("You said: lost")
        terminal.say("/undo")
        terminal.say("count")
        terminal.expect("This is the second.")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)

    def test_kept(self):
        terminal = self.rig.terminal("chat", "--context", "notes")
        terminal.say("kept")
        terminal.expect("All of it.", "llmctl: ", "/messages shows")
        terminal.say("/messages")
        terminal.expect("user: kept", "assistant: All of it.")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)

    def test_unnamed(self):
        terminal = self.rig.terminal("chat")
        terminal.say("count")
        terminal.expect("This is the first.")
        terminal.say("lost")
        terminal.expect("The first half", "llmctl: ")
        terminal.say("count")
        terminal.expect("goes on from what was said here", "This is the second.")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)


if __name__ == "__main__":
    unittest.main()
