# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes files in pieces that several threads make."""
import concurrent.futures
import os


def write_all(file, data, offset):
    while data:
        n = os.pwrite(file, data, offset)
        data, offset = data[n:], offset + n


def write_piece(file, offset, make, *arguments):
    write_all(file, memoryview(make(*arguments)).cast("B"), offset)


def write(path, head, n_bytes, pieces, n_threads, report=None):
    """@pieces: where each begins, a function that makes its bytes, and its arguments. @report:
    called with the share of pieces that are written. On failure nothing stays."""
    file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o644)
    try:
        os.truncate(file, n_bytes)
        write_all(file, head, 0)
        with concurrent.futures.ThreadPoolExecutor(n_threads or os.cpu_count()) as pool:
            futures = [pool.submit(write_piece, file, *piece) for piece in pieces]
            try:
                for i, future in enumerate(concurrent.futures.as_completed(futures)):
                    future.result()
                    if report is not None:
                        report((i + 1) / len(futures))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(file)
