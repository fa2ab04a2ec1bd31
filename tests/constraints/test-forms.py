#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Schemas as programs write them, against constraints: those of tests/data/schemas in all their
listed instances, older drafts against python3-jsonschema, what is left out, counts at their ends, and
regular expressions that look ahead against Python's."""
import decimal
import fractions
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


def check_counts_beside(probe):
    """Counts of the sizes that programs write, beside a pattern or a format: its longest text is
    right and one more character is not."""
    host = "a" * 15 + ("." + "b" * 15) * 3 + "." + "c" * 63 + ("." + "d" * 15) * 4
    cases = [
        ({"format": "email", "maxLength": 100}, ["a@b.c", "x" * 32 + "@" + "y" * 60 + ".org"],
         ["x" * 32 + "@" + "y" * 63 + ".info", "a"]),
        ({"format": "email", "maxLength": 254}, ["x" * 32 + "." + "y" * 16 + "@" + host], ["a"]),
        ({"format": "email", "maxLength": 320, "minLength": 6}, ["aa@b.c"], ["a@b.c"]),
        ({"format": "hostname", "maxLength": 253}, [host], [host + "."]),
        ({"format": "uri", "maxLength": 2083}, ["http://a.b/" + "c" * 2072], ["http://a.b/" + "c" * 2073]),
        ({"format": "uuid", "minLength": 36, "maxLength": 36}, ["0" * 8 + "-0000" * 3 + "-" + "0" * 12],
         []),
        ({"pattern": "^[a-z]+$", "maxLength": 5000}, ["a", "z" * 5000], ["", "z" * 5001, "A"]),
        ({"pattern": "^[^<>]*$", "maxLength": 1000}, ["", "é\"\n\x01" * 250], ["é" * 1001, "<"]),
        ({"pattern": "^\\S", "minLength": 900}, ["é" * 900], ["é" * 899, " " * 900]),
    ]
    for schema, valid, invalid in cases:
        schema = {"type": "string", **schema}
        found = ask(probe, schema, [*valid, *invalid], kind=suite.SCHEMA, walks=2)
        check(found.get("accepted") == [True] * len(valid) + [False] * len(invalid),
              f"{schema}: {found.get('error', found.get('accepted'))}")
        for text in found.get("walks", []):
            check(schema.get("minLength", 0) <= len(json.loads(text)) <= schema.get("maxLength", 10**9),
                  f"{schema}: wrote {text[:60]}")


def check_unique(probe):
    """Each value once, where a schema names all that there are, in any of the ways to name them."""
    cases = [
        ({"type": "boolean"}, [[], [True], [False, True]], [[True, True]]),
        ({"type": ["boolean", "null"]}, [[None, True]], [[None, None]]),
        ({"enum": list("abcdefghijklmn")}, [list("nmlkjihgfedcba")], [["a", "b", "a"]]),
        ({"anyOf": [{"const": "a"}, {"enum": [1, 1.0]}, {"type": "null"}]}, [["a", None, 1]],
         [["a", "a"], [1, 1]]),
        ({"allOf": [{"type": "string"}, {"enum": ["x", "y", 3]}]}, [["y", "x"]], [["x", "x"], [3]]),
        ({"type": "integer", "minimum": 1, "exclusiveMaximum": 8, "maximum": 8}, [[7, 1, 3]],
         [[3, 3], [8]]),
        ({"$ref": "#/$defs/day"}, [["mo", True]], [["mo", "mo"]]),
    ]
    for items, valid, invalid in cases:
        schema = {"type": "array", "items": items, "uniqueItems": True,
                  "$defs": {"day": {"oneOf": [{"enum": ["mo", "tu"]}, {"type": "boolean"}]}}}
        found = ask(probe, schema, [*valid, *invalid], kind=suite.SCHEMA, walks=3)
        check(found.get("accepted") == [True] * len(valid) + [False] * len(invalid),
              f"{schema}: {found.get('error', found.get('accepted'))}")
        for text in found.get("walks", []):
            values = [repr(value) for value in json.loads(text)]
            check(len(values) == len(set(values)), f"{schema}: wrote {text}")
    few = {"type": "array", "items": {"enum": [str(i) for i in range(25)]}, "uniqueItems": True,
           "maxItems": 3}
    found = ask(probe, few, [["1", "24", "3"], ["1", "1"], list("1234")], kind=suite.SCHEMA)
    check(found.get("accepted") == [True, False, False], f"{few}: {found}")
    places = {"type": "array", "prefixItems": [{"type": "boolean"}, {"enum": [True, "x"]}], "items": False,
              "uniqueItems": True}
    found = ask(probe, places, [[True, "x"], [False, True], [True, True], [True, "x", False]],
                kind=suite.SCHEMA)
    check(found.get("accepted") == [True, True, False, False], f"{places}: {found}")
    # old drafts read nothing beside a reference
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "array", "uniqueItems": True,
           "items": {"$ref": "#/definitions/a", "enum": ["x"]}, "definitions": {"a": {"enum": ["x", "y"]}}}
    found = ask(probe, old, [["x", "y"], ["y", "y"]], kind=suite.SCHEMA)
    check(found.get("accepted") == [True, False], f"{old}: {found}")
    for items in [{"type": "integer", "minimum": 1}, {"enum": [str(i) for i in range(20)]},
                  {"oneOf": [{"const": "a"}, {"type": "string"}]}]:
        schema = {"type": "array", "items": items, "uniqueItems": True}
        check("uniqueItems" in ask(probe, schema, kind=suite.SCHEMA).get("error", ""), f"{schema}: taken")


def check_multiples(probe):
    """Multiples of large factors, zeros at the end of them or not."""
    for factor in [1, 10, 3600, 8192, 10000, 86400, 1000000, "0.0625", "0.00001", "12.5"]:
        number = fractions.Fraction(factor)
        texts = [suite.plain(value) for value in (0, 1, 7, 10, 60, 8640, 86401, 100001)]
        texts += [f"{sign}{decimal.Decimal(str(factor)) * times:f}" for sign in ("", "-")
                  for times in (1, 2, 17)]
        schema = {"type": "number", "multipleOf": float(factor)}
        found = probe.ask(suite.SCHEMA, json.dumps(schema).replace(str(float(factor)), str(factor)), texts,
                          3)
        wanted = [(fractions.Fraction(text) / number).denominator == 1 for text in texts]
        check(found.get("accepted") == wanted, f"{schema}: {texts}: {found}")
        for text in found.get("walks", []):
            check((fractions.Fraction(text) / number).denominator == 1, f"{schema}: wrote {text}")


def check_spellings(probe):
    """What Python writes otherwise than ECMA-262, and what the latter takes without “u”."""
    for pattern, valid, invalid in [
            (r"\A[a-z]+\Z", ["ab"], ["aB", " ab"]),
            (r"^(?P<year>\d{4})-(?<month>\d\d)$", ["2020-01"], ["2020"]),
            (r"^{[a-z]}$", ["{a}"], ["a"]), (r"^a{x}]$", ["a{x}]"], ["ax"]), (r"^a{2}$", ["aa"], ["a{2}"])]:
        found = ask(probe, {"type": "string", "pattern": pattern}, [*valid, *invalid], kind=suite.SCHEMA)
        check(found.get("accepted") == [True] * len(valid) + [False] * len(invalid), f"{pattern}: {found}")
    for pattern in ["{3}", "a{,3}", "a{2", "(?P<x", "(?P=x)", "(?i)a", "]("]:
        check("error" in ask(probe, {"pattern": pattern}, kind=suite.SCHEMA), f"{pattern}: taken")


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
    check_counts_beside(probe)
    check_unique(probe)
    check_multiples(probe)
    check_spellings(probe)
    check_regexes(probe)
    check_properties(probe)
    check(probe.close() == 0, "the probe failed")
    for problem in problems:
        print(problem[:400])
    return 1 if problems else 0


sys.exit(main())
