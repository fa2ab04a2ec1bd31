#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Schemas as programs write them, against constraints: those of tests/data/schemas in all their
listed instances, older drafts against python3-jsonschema, what is left out, counts at their ends, and
regular expressions that look ahead against Python's."""
import itertools
import json
import pathlib
import random
import re
import sys
import unicodedata

import jsonschema

import suite

problems = []


def check(is_right, message):
    if not is_right:
        problems.append(message)


def ask(probe, schema, instances=(), kind=suite.LOOSE_SCHEMA, walks=0):
    return probe.ask(kind, json.dumps(schema),
                     [suite.write(instance, schema, schema) for instance in instances], walks)


def check_forms(probe, path):
    """Every one is taken but two that must be refused; all listed instances are right."""
    n_taken = 0
    for case in json.loads(path.read_text(encoding="utf-8")):
        name, valid, invalid = case["name"], case.get("valid", []), case.get("invalid", [])
        found = ask(probe, case["schema"], [*valid, *invalid], walks=3)
        if "error" in found:
            check(case["expected"].startswith("refused with a pointer"), f"{name}: {found['error']}")
            check(found["error"].startswith("schema: #/"), f"{name}: no pointer: {found['error']}")
            continue
        n_taken += 1
        check(found["accepted"] == [True] * len(valid) + [False] * len(invalid),
              f"{name}: {found['accepted']}")
        for text in found["walks"]:
            json.loads(text)
    check(n_taken == 74, f"{n_taken} forms are taken")


def check_nulls(probe):
    """What is null is not set, for the keyword itself and for those that look at it."""
    cases = [
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
          "additionalProperties": None}, [{"a": 1}, {"a": 1, "b": "x"}], [{"a": "1"}]),
        ({"type": "array", "items": [{"type": "integer"}], "additionalItems": None}, [[1], [1, "x"]],
         [["x"]]),
        ({"type": "array", "items": None, "prefixItems": None, "minItems": 1}, [["x"]], [[]]),
        ({"type": "integer", "minimum": 3, "exclusiveMinimum": None}, [3], [2]),
        ({"type": None, "enum": [1, "a"]}, [1, "a"], [2]),
        ({"type": "object", "properties": None, "patternProperties": None, "required": None}, [{}], [1]),
        ({"const": None}, [None], [0]),
    ]
    for schema, valid, invalid in cases:
        found = probe.ask(suite.LOOSE_SCHEMA, json.dumps(schema),
                          [suite.write(instance, {}, {}) for instance in [*valid, *invalid]], 0)
        check(found.get("accepted") == [True] * len(valid) + [False] * len(invalid),
              f"{schema}: {found.get('error', found.get('accepted'))}")


def check_digits(probe):
    """Numbers that are named are written whatever digits they have; others as programs read them."""
    long = 123456789012345678901234567890123
    cases = [
        ({"const": 3.141592653589793}, [3.141592653589793], [3.14159265358979]),
        ({"const": 0.30000000000000004}, [0.30000000000000004], [0.3]),
        ({"const": -2.718281828459045}, [-2.718281828459045], [2.718281828459045]),
        ({"enum": [52.520006599999996, 1.5]}, [52.520006599999996, 1.5], [52.5200066]),
        ({"enum": [long, 5]}, [long, 5], [long + 1]),
        ({"enum": [3.141592653589793, 1]}, [3.141592653589793, 1], [3]),
        ({"anyOf": [{"const": 3.141592653589793}, {"type": "integer"}]}, [3.141592653589793, 7], [0.5]),
        ({"minimum": 3.141592653589793, "maximum": 3.141592653589793}, [3.141592653589793], [3.1]),
        ({"type": "number", "minimum": 0.12345678901234566, "maximum": 0.12345678901234568},
         [0.12345678901234567], [0.123456789012345]),
    ]
    for schema, valid, invalid in cases:
        found = ask(probe, schema, [*valid, *invalid], walks=2)
        if "error" in found:
            check(False, f"{schema}: {found['error']}")
            continue
        check(found["accepted"] == [True] * len(valid) + [False] * len(invalid),
              f"{schema}: {found['accepted']}")


def check_drafts(probe):
    """Schemas that mean something else in another draft: what walks write is valid in theirs."""
    uri = "http://json-schema.org/draft-0{}/schema#"
    cases = [
        (4, {"type": "number", "minimum": 3, "exclusiveMinimum": True, "maximum": 4}),
        (4, {"id": "http://x/y", "definitions": {"a": {"id": "#b", "type": "integer"}}, "$ref": "#b"}),
        (6, {"type": "array", "items": [{"type": "integer"}, {"type": "null"}],
             "additionalItems": {"type": "boolean"}, "maxItems": 4}),
        (7, {"$ref": "#/definitions/a", "type": "null", "definitions": {"a": {"type": "integer"}}}),
        (7, {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}},
             "additionalProperties": False, "dependencies": {"a": ["b"]}}),
        (7, {"type": "object", "properties": {"a": {"type": "null"}, "b": {}}, "additionalProperties": False,
             "dependencies": {"a": {"required": ["b"], "properties": {"b": {"const": 5}}}}}),
    ]
    validators = {4: jsonschema.Draft4Validator, 6: jsonschema.Draft6Validator,
                  7: jsonschema.Draft7Validator}
    for draft, schema in cases:
        schema["$schema"] = uri.format(draft)
        found = probe.ask(suite.SCHEMA, json.dumps(schema), [], 60)
        check("error" not in found, f"{schema}: {found.get('error')}")
        validator = validators[draft](schema)
        for text in found.get("walks", []):
            check(validator.is_valid(json.loads(text)), f"{schema}: invalid: {text}")


def check_unheld(probe):
    """What can't be held to is named, and never makes a valid instance invalid."""
    unheld = {"type": "array", "uniqueItems": True}
    backwards = {"type": "string", "pattern": "(?<=a)b"}
    cases = [
        ({"type": "object", "properties": {"a": backwards, "b": {"type": "integer"}}, "required": ["b"]},
         "#/properties/a/pattern", [{"a": "x", "b": 1}], [{"a": "x", "b": "y"}, {"a": 1, "b": 1}]),
        ({"not": backwards}, "#/not/pattern", ["b", "ab", 1], []),
        ({"not": {"items": unheld}}, "", [[[1, 1]]], []),
        ({"oneOf": [backwards, {"type": "string", "maxLength": 3}]}, "#/oneOf/0/pattern", ["ab", "xyz"],
         [1]),
        ({"if": backwards, "then": {"maxLength": 2}, "else": {"minLength": 5}}, "#/if/pattern",
         ["ab", "xxxxx"], []),
        ({"contains": backwards, "maxContains": 1}, "#/contains/pattern", [["ab"], ["ab", "x"]], []),
        ({"$ref": "https://example.org/a", "type": "integer"}, "#/$ref", [5], ["x"]),
        ({"type": "array", "items": unheld, "maxItems": 2}, "#/items", [[[1, 2]]], [[[1], [2], [3]]]),
        ({"type": "object", "minProperties": 4}, "#", [{"a": 1, "b": 2, "c": 3, "d": 4}], [{"a": 1}]),
        ({"$schema": "https://example.org/s", "type": "integer"}, "#/$schema", [5], ["x"]),
    ]
    for schema, pointer, valid, invalid in cases:
        found = ask(probe, schema, [*valid, *invalid])
        check("error" not in found, f"{schema}: {found.get('error')}")
        if "error" in found:
            continue
        check(found["accepted"] == [True] * len(valid) + [False] * len(invalid),
              f"{schema}: {found['accepted']}")
        check(not pointer or any(text.startswith(f"{pointer}: ") for text in found["unheld"]),
              f"{schema}: {found['unheld']}")
        # and where nothing may be left out, it is an error
        check(not found["unheld"] or "error" in ask(probe, schema, kind=suite.SCHEMA),
              f"{schema}: taken")


def check_counts(probe):
    """Counts that no state of their own counts, at both ends of them."""
    for low, high in [(0, 256), (0, 300), (300, 300), (255, 257), (0, 65536), (65537, 70000),
                      (100000, 100000), (0, 100000)]:
        sizes = sorted({max(low - 1, 0), low, (low + high) // 2, high, high + 1})
        schema = {"type": "string", "minLength": low, "maxLength": high}
        texts = ["é" * size for size in sizes] + ["\\\"" * high]
        found = ask(probe, schema, texts, kind=suite.SCHEMA)
        wanted = [low <= len(text) <= high for text in texts]
        check(found.get("accepted") == wanted, f"{schema}: {sizes}: {found.get('error')}")
    for prefix, low, high in [(0, 0, 600), (2, 0, 1000), (0, 700, 700), (0, 501, 66000), (3, 2, 999)]:
        schema = {"type": "array", "items": {"const": 1}, "minItems": low, "maxItems": high,
                  "prefixItems": [{"const": 0}] * prefix}
        if not prefix:
            del schema["prefixItems"]
        sizes = sorted({max(low - 1, 0), low, (low + high) // 2, high, high + 1})
        lists = [[0] * min(prefix, size) + [1] * max(size - prefix, 0) for size in sizes]
        found = ask(probe, schema, lists, kind=suite.SCHEMA)
        check(found.get("accepted") == [low <= size <= high for size in sizes],
              f"{schema}: {sizes}: {found}")
    for schema in [{"type": "string", "maxLength": 2**31 - 1}, {"type": "array", "maxItems": 10**9},
                   {"anyOf": [{"type": "string", "maxLength": 100000}, {"type": "null"}]},
                   {"not": {"type": "string", "maxLength": 100000}}]:
        found = ask(probe, schema, kind=suite.SCHEMA, walks=3)
        check("error" not in found, f"{schema}: {found.get('error')}")


def make_regex(rand, depth=0):
    kind = rand.randrange(9 if depth < 3 else 3)
    if kind < 3:
        return rand.choice(["a", "b", "[ab]", ".", "a*", "b+", "(?:ab)?", "a{1,2}", "[^a]"])
    if kind < 5:
        return make_regex(rand, depth + 1) + make_regex(rand, depth + 1)
    if kind == 5:
        return f"(?:{make_regex(rand, depth + 1)}|{make_regex(rand, depth + 1)})"
    if kind == 6:
        return f"(?:{make_regex(rand, depth + 1)}){rand.choice(['?', '{1,2}', '{2}'])}"
    body = make_regex(rand, depth + 1) + rand.choice(["", "", "$"])
    return f"(?{rand.choice('=!')}{rand.choice(['', '', '^'])}{body})"


def check_regexes(probe):
    """Random ones that look ahead, over all short texts."""
    rand = random.Random(7)
    texts = ["".join(letters) for n in range(5) for letters in itertools.product("abc", repeat=n)]
    n_compared = 0
    for _ in range(250):
        regex = rand.choice(["", "^"]) + "".join(make_regex(rand) for _ in range(3)) + rand.choice(["", "$"])
        if "(?=" not in regex and "(?!" not in regex:
            continue
        # Python's $ also holds before a newline, of which there is none
        wanted = [re.search(regex, text) is not None for text in texts]
        found = probe.ask(suite.SCHEMA, json.dumps({"type": "string", "pattern": regex}),
                          [json.dumps(text) for text in texts])
        if "error" in found:
            check("no text keeps to it" in found["error"] and not any(wanted), f"{regex}: {found['error']}")
            continue
        n_compared += 1
        check(found["accepted"] == wanted, f"{regex}: " + str([text for text, a, w in zip(
            texts, found["accepted"], wanted) if a != w][:5]))
    check(n_compared > 100, f"{n_compared} regular expressions were compared")


def check_properties(probe):
    """Of Unicode: by what Python knows of these characters, which both have had for years."""
    characters = ["A", "z", "é", "ß", "Ω", "я", "中", "あ", "5", "٣", "½", "_", "-", "“", "€", "+", " ", "\u2028",
                  "\u0301", "😀", "⌚", "#", "\u200d", "\ufe0f", "\U000e0061"]
    general = {name: [unicodedata.category(c).startswith(name) for c in characters]
               for name in ("L", "Lu", "Ll", "Lo", "M", "Mn", "N", "Nd", "No", "P", "Pc", "Pd", "S", "Sc", "Z", "Zs", "C")}
    known = {
        "Letter": general["L"], "gc=Nd": general["Nd"], "General_Category=Punctuation": general["P"],
        "Any": [True] * len(characters),
        "Script=Greek": [c == "Ω" for c in characters], "sc=Cyrillic": [c == "я" for c in characters],
        "Script_Extensions=Hiragana": [c == "あ" for c in characters],
        "Extended_Pictographic": [c in "😀⌚" for c in characters],
        "Emoji_Component": [c in "5#\u200d\ufe0f\U000e0061" for c in characters],
        "ASCII": [c < "\x80" for c in characters],
        "Alphabetic": [unicodedata.category(c)[0] == "L" for c in characters],
        "White_Space": [c in " \u2028" for c in characters],
        **general}
    for name, wanted in known.items():
        for letter, negate in (("p", False), ("P", True)):
            schema = {"type": "string", "pattern": f"^\\{letter}{{{name}}}$"}
            found = ask(probe, schema, characters, kind=suite.SCHEMA)
            if negate and name == "Any":
                check("error" in found, f"{schema}: taken")
                continue
            check(found.get("accepted") == [is_in != negate for is_in in wanted],
                  f"{schema}: {found.get('error')} " + str([c for c, a, w in zip(
                      characters, found.get("accepted", []), wanted) if a != (w != negate)]))


def main():
    probe = suite.Probe(sys.argv[1], sys.argv[2])
    check_forms(probe, pathlib.Path(sys.argv[3]))
    check_nulls(probe)
    check_digits(probe)
    check_drafts(probe)
    check_unheld(probe)
    check_counts(probe)
    check_regexes(probe)
    check_properties(probe)
    check(probe.close() == 0, "the probe failed")
    for problem in problems:
        print(problem[:400])
    return 1 if problems else 0


sys.exit(main())
