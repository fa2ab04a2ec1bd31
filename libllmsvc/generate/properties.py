#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Makes the properties and getters of the library's objects from properties.list.

    properties.py LIST FOLDER

Writes for each object llmsvc-OBJECT-properties.h, which its source includes behind its struct:
the getters, and install_properties() for its class. llmsvc-property-docs.c has their comments,
for g-ir-scanner.
"""

import pathlib
import re
import sys

ENTRY = re.compile(r"(\w+)(?::(\w+))?(\??) ([a-z-]+) = (.*)")
# type: what a getter returns, annotations of it, the arguments of g_param_spec_…()
TYPES = {
    "boolean": ("gboolean ", "", "FALSE"),
    "double": ("double ", "", "0, G_MAXDOUBLE, 0"),
    "enum": ("{} ", "", "{gtype}, 0"),
    "object": ("{} *", "(transfer none)", "{gtype}"),
    "string": ("const char *", "(transfer none)", "{default}"),
    "strv": ("const char *const *", "(array zero-terminated=1) (transfer none)", "G_TYPE_STRV"),
    "uint": ("guint ", "", "0, G_MAXUINT, 0"),
    "uint64": ("guint64 ", "", "0, G_MAXUINT64, 0"),
    "variant": ("GVariant *", "(transfer none)", "G_VARIANT_TYPE_VARDICT, NULL"),
}


def split_words(camel):
    return re.findall(r"[A-Z][a-z]+", camel.replace("DBus", "Dbus").replace("GL", "G_L"))


class Property:
    def __init__(self, owner, match):
        self.type, argument, nullable, self.name, self.value = match.groups()
        self.comments = {" ": [], ">": [], "<": []}
        c_type, self.annotations, arguments = TYPES[self.type]
        words = [word.upper() for word in split_words(argument or "")]
        prefix = "LLMSVC" if words and words[0] == "LLMSVC" else "G"
        words = words[1:] if prefix == "LLMSVC" else words
        gtype = "_".join([prefix, "TYPE", *words])
        self.c_type = c_type.format(argument)
        self.annotations += " (nullable)" if nullable else ""
        self.arguments = arguments.format(gtype=gtype, default=argument or '""')
        self.id = "PROP_" + self.name.replace("-", "_").upper()
        self.getter = f"{owner.symbol}_get_{self.name.replace('-', '_')}"
        if self.value.startswith('"'):
            self.value = f"llmsvc_dict_get_{self.type} (self->{owner.field}, {self.value})"
        elif self.type == "strv":
            self.value = f"({self.c_type}) {self.value}"

    def add_comment(self, line):
        mark = line[2] if line[2] in "<>" else " "
        if line.startswith("    "):
            self.comments[self.last].append(line.strip())
        else:
            self.last = mark
            self.comments[mark].append(line[2:].lstrip("<> "))


class Object:
    def __init__(self, name, what, field):
        self.name, self.what, self.field = f"Llmsvc{name}", what, field
        words = split_words(name)
        self.file = "-".join(words).lower()
        self.symbol = "_".join(["llmsvc", *words]).lower()
        self.properties = []


def read(path):
    objects = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if head := re.match(r"\[(\w+)\] ([^;]*)(?:; (\S+))?", line):
            objects.append(Object(*head.groups()))
        elif line.startswith("  "):
            objects[-1].properties[-1].add_comment(line)
        elif entry := ENTRY.match(line):
            objects[-1].properties.append(Property(objects[-1], entry))
    return objects


def write_c(obj):
    cast = obj.symbol.upper()
    out = ["enum\n{\n  PROP_0,"] + [f"  {p.id}," for p in obj.properties] + ["};"]
    for p in obj.properties:
        if p.comments[">"]:
            out.append(f"""
{p.c_type.rstrip()}
{p.getter} ({obj.name} *self)
{{
  g_return_val_if_fail ({cast.replace("LLMSVC_", "LLMSVC_IS_")} (self), 0);

  return {p.value};
}}""")
    out.append(f"""
static void
get_property (GObject    *object,
              guint       id,
              GValue     *value,
              GParamSpec *pspec)
{{
  {obj.name} *self = {cast} (object);

  switch (id)
    {{""")
    for p in obj.properties:
        setter = "boxed" if p.type == "strv" else p.type
        value = f"(int) ({p.value})" if p.type == "enum" else p.value
        out.append(f"    case {p.id}:\n      g_value_set_{setter} (value, {value});\n      break;")
    flags = "G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY"
    if obj.field == "construct-only":
        flags = "G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_CONSTRUCT_ONLY"
    out.append(f"""    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }}
}}

static void
install_properties (GObjectClass *klass)
{{
  const GParamFlags flags = {flags};

  klass->get_property = get_property;""")
    for p in obj.properties:
        setter = "boxed" if p.type == "strv" else p.type
        out.append(f"""  g_object_class_install_property (
    klass, {p.id}, g_param_spec_{setter} ("{p.name}", NULL, NULL, {p.arguments}, flags));""")
    return "\n".join([*out, "}", ""])


def write_comments(obj):
    def comment(name, lines):
        body = "\n".join(f" * {line}".rstrip() for line in lines)
        return f"/**\n * {name}:\n{body}\n *\n * Since: 0.1\n */\n\n"

    out = ""
    for p in obj.properties:
        out += comment(f"{obj.name}:{p.name}", ["", *p.comments[" "]])
        if p.comments[">"]:
            colon = ": " if p.annotations else ""
            first, *rest = p.comments["<"]
            out += comment(p.getter, [
                f"@self: {obj.what}", "", "Gets " + p.comments[">"][0], *p.comments[">"][1:], "",
                f"Returns: {p.annotations.strip()}{colon}{first}", *(f"  {line}" for line in rest)])
    return out


def main():
    folder = pathlib.Path(sys.argv[2])
    objects = read(pathlib.Path(sys.argv[1]))
    for obj in objects:
        (folder / f"llmsvc-{obj.file}-properties.h").write_text(write_c(obj), encoding="utf-8")
    (folder / "llmsvc-property-docs.c").write_text("".join(map(write_comments, objects)),
                                                   encoding="utf-8")


main()
