# SPDX-License-Identifier: LGPL-2.1-or-later
"""Small storms over the real service: nobody is killed, no answer is lost or another than
undisturbed, the program beside it lives. With a model that has some weight. Ends with 77, and the
reason, where no control group can be made."""
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import rig

SKIPPED = 77
N_APPS = 4


def run_storms(model):
    outcome = rig.run("storm", "--daemon", rig.DAEMON, "--model", model, "--storms", "3", "--hurry",
                      "4", "--json")
    print(outcome.stderr, file=sys.stderr)
    if outcome.returncode == SKIPPED:
        return SKIPPED
    alone, run = json.loads(outcome.stdout)["runs"]
    assert alone["eater-lived"] and len(alone["storms"]) == 3, alone
    found = {key: run[key] for key in ("killed-in-storm", "oom-kills", "different")}
    assert found == {"killed-in-storm": 0, "oom-kills": 0, "different": 0}, found
    assert run["answers"] >= N_APPS and "failure" not in run, run.get("failure")
    assert run["eater-lived"] and len(run["storms"]) == 3, run["storms"]
    assert outcome.returncode == 0, outcome.returncode
    print(f"{model}: 3 storms, {run['answers']} answers, all as undisturbed")
    return 0


def main():
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder, "made.gguf")
        outcome = rig.run("make-gguf", "--shape", "1.1b", "--type", "Q4_0", "--layers", "2", made)
        assert outcome.returncode == 0, outcome.stderr
        status = run_storms(made)
    if status == SKIPPED:
        print("SKIPPED: no storm went over the service: no memory control group here",
              file=sys.stderr)
    return status


sys.exit(main())
