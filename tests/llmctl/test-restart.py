# SPDX-License-Identifier: LGPL-2.1-or-later
"""Ten contexts, told something each; the service ends, in order and by SIGKILL; each is asked
about its past. What llmctl shows meanwhile is where they are kept."""
import json
import signal
import time
import unittest

import rig

FACTS = {
    "anna": "My name is Anna. I am a farmer, and I grow apples and pears near the river.",
    "bert": "My name is Bert. I drive a bus through the city, every day but Sunday.",
    "cleo": "My name is Cleo. I have two cats, and one of them sleeps all day long.",
    "dora": "My name is Dora. I would like to eat Italian food tonight, with my sister.",
    "emil": "My name is Emil. I am looking for a doctor in San Jose, for next Monday.",
    "fred": "My name is Fred. I want to see a comedy movie, but not too late at night.",
    "gina": "My name is Gina. I need a train to the mountains, for three people and a dog.",
    "hans": "My name is Hans. I build houses of wood, and in winter I repair old boats.",
    "iris": "My name is Iris. I am learning to play the piano, and I practise each morning.",
    "jack": "My name is Jack. I lost my phone on the way to work, and I want it back.",
}
QUESTION = "What did I tell you about myself, and what is my name?"
SIGNS = {"8": "8", "4": "4", "3": "3", "2": "2", "16": "F", "32": "F"}
STORED_SIGNS = {"8": "e", "4": "q", "3": "h", "2": "t", "16": "f", "32": "f"}


class Restart(unittest.TestCase):
    def setUp(self):
        self.rig = rig.Rig()
        for name, fact in FACTS.items():
            outcome = self.rig.run("ask", "--context", name, "--max-tokens", "16",
                                   "--temperature", "0", fact)
            self.assertEqual(outcome.status, 0, outcome)

    def tearDown(self):
        self.rig.close()

    def list(self):
        return {context["name"]: context for context in self.rig.json("context", "list")["contexts"]}

    def wait_until_stored(self):
        """Chunks are written when there is nothing else to do, all but the last."""
        for _ in range(rig.LIMIT_S * 10):
            contexts = self.list().values()
            if all(set(context["memory"]["places"][:-1]) == {"b"} for context in contexts):
                return
            time.sleep(0.1)
        self.fail(f"not everything was written: {contexts}")

    def expect_map(self, memory):
        """The line of the map that belongs to what --json says, in ASCII."""
        return "".join(
            "." if place == "t" else (STORED_SIGNS if place == "s" else SIGNS)[str(bits)]
            for bits, place in zip(memory["bits"], memory["places"], strict=True))

    def check_map(self, name):
        shown = self.rig.json("context", "show", name)
        output = self.rig.run("context", "show", name, LC_ALL="C").output
        self.assertIn(f"\n      0 {self.expect_map(shown['memory'])}\n", output)
        self.assertNotRegex(output, "[^\x00-\x7f]")

    def check(self, end):
        said = {name: self.rig.json("context", "show", name)["messages"] for name in FACTS}
        self.wait_until_stored()
        self.check_map("anna")
        before = {name: context["memory"] for name, context in self.list().items()}
        end()
        self.rig.start()

        contexts = self.list()
        self.assertEqual(set(contexts), set(FACTS))
        for context in contexts.values():
            self.assertEqual((context["revision"], context["residency"]), (1, "storage"), context)
            self.assertEqual(context["memory"]["memory-bytes"], 0)
            self.assertGreater(context["memory"]["storage-bytes"], 0)
            # all full chunks, as files say: the last one may have been
            memory, old = context["memory"], before[context["name"]]
            n_full = len(old["bits"]) - 1
            self.assertIn(len(memory["bits"]), (n_full, n_full + 1))
            self.assertEqual(memory["bits"][:n_full], old["bits"][:n_full])
            self.assertEqual(set(memory["places"]), {"s"})
            self.assertEqual(memory["chunk-tokens"], old["chunk-tokens"])
        self.check_map("anna")
        for line in self.rig.run("context", "list").output.splitlines()[1:]:
            self.assertRegex(line, r"^\w+ +1 +\d+ +storage +0 bytes +[\d.]+\sKiB")

        for name in FACTS:
            outcome = self.rig.run("ask", "--context", name, "--max-tokens", "16",
                                   "--temperature", "0", "--json", QUESTION)
            self.assertEqual(outcome.status, 0, outcome)
            done = json.loads(outcome.output.splitlines()[-1])["done"]
            self.assertGreater(done["output-tokens"], 0)
            self.assertEqual(done["revision"], 2)
            messages = self.rig.json("context", "show", name)["messages"]
            self.assertEqual(messages[:-2], said[name])
            self.assertEqual(messages[-2]["text"], QUESTION)
            self.assertEqual(messages[-4]["text"], FACTS[name])

        for context in self.list().values():
            self.assertIn(context["residency"], ("memory", "compressed"), context)
            self.assertGreater(context["memory"]["memory-bytes"], 0)
            self.assertNotIn("t", context["memory"]["places"])
        self.wait_until_stored()
        self.check_map("jack")
        counters = self.rig.json("stats")
        self.assertGreater(counters["kv-restored-chunks"] + counters["kv-recomputed-chunks"], 0)
        self.assertEqual(counters["kv-faulted-chunks"], 0)
        self.assertRegex(self.rig.run("status").output, r"\n  chunks: \d+ read back, ")

    def test_in_order(self):
        self.check(self.rig.stop)

    def test_killed(self):
        self.check(lambda: self.rig.stop(signal.SIGKILL))

    def test_colours(self):
        self.wait_until_stored()
        memory = self.rig.json("context", "show", "bert")["memory"]
        self.assertEqual(memory["places"][:-1], "b" * (len(memory["places"]) - 1))
        terminal = self.rig.terminal("context", "show", "bert", term="xterm")
        terminal.expect("\x1b[32m", "in memory and on storage")
        self.assertEqual(terminal.finish(), 0)
        terminal = self.rig.terminal("context", "show", "bert", term="dumb")
        terminal.expect("in memory and on storage")
        self.assertEqual(terminal.finish(), 0)
        self.assertNotIn("\x1b", terminal.text)


if __name__ == "__main__":
    unittest.main()
