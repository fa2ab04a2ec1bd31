# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files that take their place when they are whole, and what is said when the disk is full."""
import contextlib
import errno
import os


def name_file(error, path):
    """Of a write that failed, which does not say of what; libraries hide it behind their own."""
    found = error
    while found is not None and not isinstance(found, OSError):
        found = found.__context__
    if found is None or found.filename is not None:
        return error
    return OSError(found.errno, found.strerror or str(found), os.fspath(path))


@contextlib.contextmanager
def replacing(path):
    """The name of a file to write, which then takes the place of @path; on failure nothing stays of
    it, and the error names @path."""
    partial = f"{path}.partial"
    try:
        yield partial
        os.replace(partial, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        named = name_file(error, path)
        if named is error:
            raise
        raise named from error


def describe(error):
    """One line about an OSError."""
    text = f"{error.filename}: " if error.filename else ""
    text += error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT) and error.filename:
        folder = os.path.dirname(os.path.abspath(error.filename))
        text += f"; make room in {folder} and give the same command again"
    return text
