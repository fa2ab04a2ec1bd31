#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""check-sources.py: no #include that nothing needs, and no comment torn from what it describes.

A header is needed where a name that it declares, or that its own headers declare, stands in the source.
That is asked of the project's headers and of some of the system's; not of headers, which include for
others, and not of kernels, whose templates take names that a source defines before them.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOTS = ("kernels", "service", "libllmsvc", "llmctl", "clients", "bench", "tests")
PLACES = ("", "service", "libllmsvc", "libllmsvc/common", "bench", "tests")
SYSTEM = {
    "errno.h": r"errno|E[A-Z]{3,}",
    "fcntl.h": r"open|openat|O_\w+|fcntl|F_\w+|posix_f\w+|fallocate|AT_\w+|FALLOC_\w+|splice",
    "float.h": r"(?:FLT|DBL)_\w+",
    "math.h": r"a?(?:sin|cos|tan)h?f?|atan2f?|NAN|INFINITY|HUGE_VALF?|M_\w+|is(?:nan|inf|finite)|fpclassify|signbit"
              r"|(?:exp|exp2|expm1|log|log2|log10|log1p|pow|sqrt|fabs|floor|ceil|round|lround|llround|rint|lrint|nearbyint"
              r"|trunc|fmod|fmax|fmin|ldexp|frexp|hypot|erf|cbrt|copysign|scalbn|fma|nextafter|tgamma|lgamma)f?",
    "signal.h": r"SIG\w+|sig\w+|kill|raise",
    "stdio.h": r"\w*printf|F?f?puts|fput[cs]|put(?:s|c|char)|f(?:open|close|flush|read|write|seek|tell|ileno|eof|error)|stdin"
               r"|stdout|stderr|FILE|getline|rename\w*|remove|fgets|getc|getchar|setvbuf|EOF|BUFSIZ|perror|sscanf|snprintf"
               r"|feof|fdopen",
    "stdlib.h": r"q?sort|qsort_r|bsearch|(?:m|c|re)alloc|free|exit|_Exit|abort|strto\w+|ato\w+|getenv|setenv|EXIT_\w+|abs"
                r"|rand|system|mkdtemp|mkstemp|atexit|posix_memalign|aligned_alloc|realpath|labs|llabs",
    "string.h": r"(?:mem|str)[a-z]+|explicit_bzero|ffs\w*",
    "unistd.h": r"read|write|close|f(?:sync|datasync|truncate|chown|execve)|unlink(?:at)?|usleep|sleep|get\w*[pug]id|isatty"
                r"|sysconf|_SC_\w+|pipe2?|dup[23]?|fork|exec\w+|_exit|p(?:read|write)\w*|lseek|access|faccessat|STD\w+_FILENO"
                r"|link(?:at)?|symlink|readlink|rmdir|chdir|getcwd|environ|pause|alarm|truncate|getpagesize|gettid|syscall"
                r"|[RWXF]_OK|ftruncate64|pread64|pwrite64|close_range|SEEK_\w+|getopt|opt(?:arg|ind)|gethostname|setsid",
}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>).*$', re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
WORD = re.compile(r"[A-Za-z_]\w*")
SECTION = re.compile(r"/\* (?:---.*---|[\w./-]+\.c\b.*) \*/", re.S)


def strip(text):
    """@text without comments, and with the strings' insides left: they may be a part of a macro."""
    return COMMENT.sub(" ", text)


def find_header(source, name):
    for place in (source.parent, *(ROOT / p for p in PLACES)):
        if (place / name).is_file():
            return (place / name).resolve()
    return None


def read_names(header, cache={}):
    """What a header declares itself: macros, types, constants, functions and variables; and members."""
    if header in cache:
        return cache[header]
    whole = header.read_text(encoding="utf-8")
    text = strip(whole)
    names, members = set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.M)), set()
    text = re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", text, flags=re.M)
    for kind, arguments in re.findall(r"\b(G_D\w+)[ \t\n]*\(([^)]*)\)", text):
        parts = [a.strip() for a in arguments.split(",")]
        names |= set(parts)
        if kind.startswith("G_DECLARE") and len(parts) > 3:
            names |= {f"{parts[2]}_{parts[3]}", f"{parts[2]}_IS_{parts[3]}", f"{parts[2]}_TYPE_{parts[3]}"}
    for body in re.findall(r"\benum\b[^;{]*\{([^}]*)\}", text):
        names |= set(re.findall(r"(?:^|,)\s*(\w+)", body))
    while (flat := re.sub(r"\{([^{}]*)\}", lambda m: members.update(
            re.findall(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?:;|,|:|\))", m.group(1))) or "@", text)) != text:
        text = flat
    names |= set(re.findall(r"(\w+)\s*\(", text))
    names |= set(re.findall(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?:;|,(?![^()]*\)))", text))
    names |= set(re.findall(r"\(\s*\*\s*(\w+)\s*\)", text))
    names |= set(re.findall(r"\b(?:struct|union|enum)\s+(\w+)", text))
    cache[header] = names, members
    for own, _ in INCLUDE.findall(whole):
        if own and (inner := find_header(header, own)) is not None:
            names |= read_names(inner)[0]
            members |= read_names(inner)[1]
    return cache[header]


def find_includes(path, text):
    """(line, name) of each #include that nothing in the file needs."""
    words = None
    for match in INCLUDE.finditer(text):
        own, system = match.groups()
        if words is None:
            bare = strip(INCLUDE.sub("", text))
            words = set(WORD.findall(bare))
            accessed = set(re.findall(r"(?:->|\.)\s*(\w+)", bare))
        if own is not None:
            header = find_header(path, own)
            if header is None or header.stem == path.stem:
                continue
            names, members = read_names(header)
            needed = bool(names & words or members & accessed)
        elif system in SYSTEM:
            pattern = re.compile(SYSTEM[system])
            needed = any(pattern.fullmatch(w) for w in words)
        else:
            continue
        if not needed:
            yield text.count("\n", 0, match.start()) + 1, own or system


def find_torn(text):
    """Lines of comments at the margin right before another one: what they describe has moved away."""
    for match in COMMENT.finditer(text):
        start = match.start()
        if start > 0 and text[start - 1] != "\n" or SECTION.fullmatch(match.group(0)):
            continue
        if re.match(r"[ \t]*\n/\*", text[match.end():]):
            yield text.count("\n", 0, start) + 1


def main():
    problems, n_files = [], 0
    for root in ROOTS:
        for path in sorted((ROOT / root).rglob("*.[ch]")):
            n_files += 1
            text = path.read_text(encoding="utf-8")
            name = path.relative_to(ROOT)
            if path.suffix == ".c" and root != "kernels":
                problems += [f"{name}:{line}: nothing here needs {header}"
                             for line, header in find_includes(path.resolve(), text)]
            problems += [f"{name}:{line}: a comment before a comment: what does it describe?" for line in find_torn(text)]
    print("\n".join(problems))
    print(f"{n_files} files, {len(problems)} problems")
    return 1 if problems or n_files < 1000 else 0


sys.exit(main())
