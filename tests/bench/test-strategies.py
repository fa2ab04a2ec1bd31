# SPDX-License-Identifier: LGPL-2.1-or-later
"""Strategies for targets of time: what counts as right, and what is compared with what."""
import json
import pathlib
import tempfile
import unittest

import rig

from strategies import dropped, report
from strategies.cases import Case, CaseError, read_call

CALL = '<tool_call>{"name": "Find", "arguments": {"city": "Bern"}}</tool_call>'
PROMPT = ("<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nFind it\nin Bern.<|im_end|>\n"
          "<|im_start|>assistant\n")
FAMILIES = {"whole": ["whole", None], "level 60": ["sub-model", None], "small": ["trained", None],
            **{f"{family} {target}": [family, list(target)]
               for family in report.OWN for target in report.TARGETS[1:]}}


def outcome(part, right):
    return {"ttft": 10 * part, "tpot": part, "right": right, "exact": False}


def make_outcomes(level_is_right, small_is_right):
    level = outcome(0.7, level_is_right)
    return {"whole": outcome(1, True), "level 60": level, "small": outcome(0.1, small_is_right),
            **{name: level for name, (family, _) in FAMILIES.items() if family in report.OWN}}


class Cases(unittest.TestCase):
    def test_messages(self):
        case = Case(json.dumps({"prompt": PROMPT, "answer": CALL}))
        self.assertEqual(case.messages, [("system", "Be kind.")])
        self.assertEqual(case.question, "Find it\nin Bern.")
        self.assertEqual(case.score(CALL), {"right": True, "exact": True})
        self.assertEqual(case.score(CALL.replace("Bern", "Rom")), {"right": True, "exact": False})
        for wrong in ("", "Bern", CALL.replace("Find", "Book"), CALL[:30], "<tool_call>[1]</tool_call>"):
            self.assertEqual(case.score(wrong), {"right": False, "exact": False})

    def test_others(self):
        for prompt, answer in ((PROMPT.replace("user", "tool"), CALL), (PROMPT, "In Bern.")):
            with self.assertRaises(CaseError):
                Case(json.dumps({"prompt": prompt, "answer": answer}))

    def test_calls(self):
        self.assertEqual(read_call(CALL), ("Find", {"city": "Bern"}))
        self.assertEqual(read_call(' <tool_call> {"name": "Go"} '), ("Go", {}))
        self.assertIsNone(read_call('{"name": "Go"}'))


class Report(unittest.TestCase):
    def test_late_is_wrong(self):
        one = make_outcomes(True, True)
        self.assertEqual(report.count(one, "level 60", (0.8, 0.9), "right"), 1)
        self.assertEqual(report.count(one, "level 60", (0.69, 0.9), "right"), 0)
        self.assertEqual(report.count(one, "level 60", (0.8, 0.69), "right"), 0)
        self.assertEqual(report.count(one, "whole", (1, 1), "right"), 1)
        one["level 60"] = {"refused": "Overloaded"}
        self.assertEqual(report.count(one, "level 60", (1, 1), "right"), 0)

    def test_choice(self):
        """It is made by the first half: what the second one would have had is not known then."""
        cases = [make_outcomes(True, False)] * 4 + [make_outcomes(False, True)] * 4
        found = report.judge(FAMILIES, cases)
        judged = found["scores"]["right"]
        self.assertEqual(found["n"], 4)
        self.assertEqual(judged["plans"]["sub-models"][1], "level 60")
        self.assertEqual(judged["rates"]["sub-models"], [1, 0, 0, 0, 0, 0])
        self.assertEqual(judged["rates"]["the whole model"], [1, 0, 0, 0, 0, 0])
        self.assertEqual(judged["rates"]["oracle"][:2], [1, 0])
        self.assertEqual(judged["beside"]["even"]["best"], "trained for their size")

    def test_bounds(self):
        """What a scorer and a decision that are never wrong could win."""
        families = FAMILIES | {"prompt 70": ["prompt", None]}
        cases = [make_outcomes(False, False) | {"prompt 70": outcome(0.5, False)} for _ in range(8)]
        for i, one in enumerate(cases):
            one["level 60"] = outcome(0.7, i % 2 == 0)
        won = report.judge(families, cases)["scores"]["right"]["could-win"]
        # without loss all are right at half of the time, which two targets ask for
        self.assertAlmostEqual(won["scorer"]["even"], 100 * (1 + 1 - 0.5) / 6)
        self.assertAlmostEqual(won["decision"]["even"], 0)
        self.assertAlmostEqual(won["decision without luck"]["even"], 0)
        # the whole model has all wrong, and of two others always one
        for i, one in enumerate(cases):
            one["whole"] = outcome(1, False)
            one["prompt 70"] = outcome(0.5, i % 2 == 1)
        won = report.judge(families, cases)["scores"]["right"]["could-win"]
        self.assertGreater(won["decision"]["even"], 0)
        self.assertAlmostEqual(won["decision without luck"]["even"], 0)

    def test_comparison(self):
        cases = [make_outcomes(True, False)] * 8
        service = [report.find_own(FAMILIES, report.OWN[0], target) for target in report.TARGETS]
        found = report.compare(cases, service, ["whole"] * 6, report.SKEWS["even"], "right")
        self.assertAlmostEqual(found["points"], 100 / 6)
        self.assertEqual((found["better"], found["worse"]), (8, 0))
        self.assertAlmostEqual(found["p"], 2 / 2 ** 8)
        self.assertEqual(report.get_share(4, 8), 1)


class Dropped(unittest.TestCase):
    def test_layers(self):
        from modelfile.reader import Gguf, GgufError
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "model.gguf")
            dropped.write(path, rig.MODEL, [3, 4])
            made, whole = Gguf(path), Gguf(rig.MODEL)
            self.assertEqual(made.values["llama.block_count"], whole.values["llama.block_count"] - 2)
            self.assertEqual(made.read("blk.3.ffn_up.weight").tobytes(),
                             whole.read("blk.5.ffn_up.weight").tobytes())
            self.assertNotIn("blk.6.ffn_up.weight", made.tensors)
            for wrong in ([8], list(range(8))):
                with self.assertRaises(GgufError):
                    dropped.write(path, rig.MODEL, wrong)


unittest.main()
