#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The JSON Schema test suite against constraints: every valid instance is accepted, every invalid
one is not, and what random walks through the masks write validates with python3-jsonschema.
What is refused must be refused with a JSON pointer, and stay what is listed in refused.txt."""
import argparse
import collections
import json
import pathlib
import sys
import urllib.parse

import jsonschema

import suite

WALKS = 12
# Those that texts are held to; others are remarks.
FORMATS = ("date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid")


def walk(schema, base="", pointer=""):
    """Every object that may be a schema, the URI of its document, and its pointer there."""
    if isinstance(schema, dict):
        if isinstance(schema.get("$id"), str):
            base, pointer = urllib.parse.urljoin(base, schema["$id"]), ""
        yield schema, base, pointer
        children = [item for item in schema.items() if item[0] not in ("const", "enum")]
    else:
        children = enumerate(schema if isinstance(schema, list) else [])
    for key, child in children:
        yield from walk(child, base, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}")


def make_resolver(schema):
    """Finds what a reference names in @schema itself: python3-jsonschema 4.10 would ask the network for
    documents inside it, and finds no anchors, so that references to these become pointers."""
    anchors = {f"{base}#{part['$anchor']}": f"{base}#{pointer}" for part, base, pointer in walk(schema)
               if isinstance(part.get("$anchor"), str)}
    documents = {}
    for part, base, pointer in walk(schema):
        if pointer == "":
            documents[base] = part
        if isinstance(part.get("$ref"), str):
            ref = part["$ref"]
            # urljoin() does not know the scheme urn
            ref = base + ref if ref.startswith("#") else urllib.parse.urljoin(base, ref)
            part["$ref"] = anchors.get(ref, ref)
    # absolute, since it adds them to each other
    for base, part in documents.items():
        if "$id" in part:
            part["$id"] = base
    return jsonschema.RefResolver("", schema, store=documents)


def is_valid(validator, text):
    try:
        return validator.is_valid(json.loads(text))
    except ValueError:
        return False


def check_case(probe, case, counts, problems, name):
    schema = case["schema"]
    texts = [suite.write(test["data"], schema, schema) for test in case["tests"]]
    found = probe.ask(suite.SCHEMA, json.dumps(schema), texts, WALKS, seed=len(texts))
    if "error" in found:
        if "no text keeps to it" in found["error"]:
            counts["empty"] += 1
            if any(test["valid"] for test in case["tests"]):
                problems.append(f"{name}: refused as empty, but has valid instances")
            return None
        counts["refused"] += 1
        if not found["error"].startswith(("schema: #", "schema: it is no JSON")):
            problems.append(f"{name}: no pointer in: {found['error']}")
        return found["error"]
    counts["supported"] += 1
    has_format = isinstance(schema, dict) and schema.get("format") in FORMATS
    for test, text, accepted in zip(case["tests"], texts, found["accepted"]):
        counts["instances"] += 1
        # formats are held to, which the suite leaves to the program
        if has_format and isinstance(test["data"], str):
            continue
        if accepted != test["valid"]:
            problems.append(f"{name}: {'valid' if test['valid'] else 'invalid'}, but "
                            f"{'accepted' if accepted else 'not accepted'}: {text}")
    known = [name for name in FORMATS if name in jsonschema.FormatChecker.checkers]
    checker = jsonschema.FormatChecker(known) if has_format else None
    # Python's re has no properties
    checked = json.loads(json.dumps(schema).replace("\\\\p{Letter}", "[^\\\\W\\\\d_]"))
    validator = jsonschema.Draft202012Validator(checked, format_checker=checker,
                                                resolver=make_resolver(checked))
    # what python3-jsonschema 4.10 does not find, and where it forgets what was evaluated
    written = json.dumps(schema)
    is_wrong = "$dynamicRef" in written or ("unevaluated" in written and "additional" in written)
    for text in found["walks"] if not is_wrong else ():
        counts["walks"] += 1
        if not is_valid(validator, text):
            problems.append(f"{name}: generated, but invalid: {text}")
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("vocabulary")
    parser.add_argument("suite", type=pathlib.Path)
    parser.add_argument("refused", type=pathlib.Path)
    parser.add_argument("--table", action="store_true", help="print the table of files")
    parser.add_argument("--update", action="store_true", help="write the list of what is refused")
    args = parser.parse_args()

    probe = suite.Probe(args.probe, args.vocabulary)
    total = collections.Counter()
    problems, refused, rows = [], [], []
    for path in sorted(args.suite.glob("*.json")):
        counts = collections.Counter()
        for case in json.loads(path.read_text(encoding="utf-8")):
            name = f"{path.stem}: {case['description']}"
            error = check_case(probe, case, counts, problems, name)
            if error is not None:
                refused.append(f"{name}: {error}")
        rows.append((path.stem, counts))
        total += counts
    if probe.close() != 0:
        problems.append("the probe failed")
    if args.update:
        args.refused.write_text("\n".join(refused) + "\n", encoding="utf-8")
    elif args.refused.read_text(encoding="utf-8").splitlines() != refused:
        known = args.refused.read_text(encoding="utf-8").splitlines()
        problems += [f"refused now: {line}" for line in refused if line not in known]
        problems += [f"no longer refused: {line}" for line in known if line not in refused]

    if args.table:
        print("| file | supported | refused | no instance | wrong |\n|---|---:|---:|---:|---:|")
        for name, counts in rows:
            wrong = sum(problem.startswith(name + ":") for problem in problems)
            print(f"| {name} | {counts['supported']} | {counts['refused']} | {counts['empty']} "
                  f"| {wrong} |")
    for problem in problems:
        print(problem)
    print(f"schemas: {total['supported']} supported, {total['refused']} refused, {total['empty']} "
          f"without an instance; {total['instances']} instances, {total['walks']} generated texts; "
          f"wrong: {len(problems)}")
    return 1 if problems or not total["supported"] else 0


sys.exit(main())
