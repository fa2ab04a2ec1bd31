# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the scripts of this folder share: the probe, and JSON as constraints have it."""
import json
import subprocess

JSON, SCHEMA, REGEX, GRAMMAR, TOOLS, LOOSE_SCHEMA = range(6)
IN_PLACE = ("$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "not", "dependentSchemas")


class Probe:
    """The program that compiles constraints, one question a line."""

    def __init__(self, program, vocabulary):
        self.process = subprocess.Popen([program, vocabulary], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, kind, text, accept=(), walks=0, seed=1):
        question = {"kind": kind, "text": text, "accept": list(accept), "walks": walks,
                    "seed": seed}
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the probe died: {self.process.wait()}, asked for {text}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


def plain(number):
    """Without exponent, and without a point where the number is whole."""
    if isinstance(number, int):
        return str(number)
    if number == int(number):
        return str(int(number))
    text = repr(number)
    return text if "e" not in text else f"{number:.20f}".rstrip("0")


def resolve(schema, root):
    ref = schema.get("$ref", "")
    if not ref.startswith("#/"):
        return root if ref == "#" else None
    node = root
    for part in ref[2:].split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        try:
            node = node[int(part)] if isinstance(node, list) else node[part]
        except (KeyError, ValueError, IndexError):
            return None
    return node


def parts(schema, root, depth=0):
    """The schema, and those that speak of the same value, in the order of their keys."""
    if not isinstance(schema, dict) or depth > 6:
        return
    yield schema
    for keyword in schema:
        if keyword not in IN_PLACE:
            continue
        value = resolve(schema, root) if keyword == "$ref" else schema[keyword]
        if keyword == "dependentSchemas":
            value = list(value.values())
        for part in value if isinstance(value, list) else [value]:
            yield from parts(part, root, depth + 1)


def order_keys(instance, schemas):
    declared = []
    for schema in schemas:
        declared += [*schema.get("properties", {})]
    for schema in schemas:
        for value in [schema.get("const"), *schema.get("enum", [])]:
            if isinstance(value, dict) and value == instance:
                declared += [*value]
        declared += schema.get("required", [])
        for key, keys in schema.get("dependentRequired", {}).items():
            declared += [key, *keys]
        declared += [*schema.get("dependentSchemas", {})]
    first = {}
    for key in declared:
        first.setdefault(key, len(first))
    return sorted(instance, key=lambda key: first.get(key, len(first)))


def write(instance, schema, root):
    """Compact, declared keys first and in the order of the schema, plain numbers."""
    if isinstance(instance, bool) or instance is None:
        return json.dumps(instance)
    if isinstance(instance, (int, float)):
        return plain(instance)
    if isinstance(instance, str):
        return json.dumps(instance, ensure_ascii=False)
    schemas = [part for part in parts(schema, root) if isinstance(part, dict)]
    if isinstance(instance, list):
        items = []
        for i, item in enumerate(instance):
            below = [*(p["prefixItems"][i] for p in schemas if i < len(p.get("prefixItems", []))),
                     *(p["items"] for p in schemas if "items" in p),
                     *(p["contains"] for p in schemas if "contains" in p)]
            items.append(write(item, {"allOf": below}, root))
        return "[" + ",".join(items) + "]"
    members = []
    for key in order_keys(instance, schemas):
        below = [p["properties"][key] for p in schemas if key in p.get("properties", {})]
        below += [p["additionalProperties"] for p in schemas if "additionalProperties" in p]
        members.append(json.dumps(key, ensure_ascii=False) + ":"
                       + write(instance[key], {"allOf": below}, root))
    return "{" + ",".join(members) + "}"
