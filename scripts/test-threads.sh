#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The disk's queue, storage and the store of context memory under the thread sanitizer.
set -eu
cd "$(dirname "$0")/.."

[ -f build-threads/build.ninja ] ||
  meson setup build-threads -Db_sanitize=thread -Db_lundef=false -Dintrospection=false \
    -Dvapi=false -Dman=false -Ddocs=false \
    -Dc_args="$(pkg-config --cflags glib-2.0) -include $PWD/tests/support/glib-locks.h"
tests="io/disk kv/storage kv/storage-limits kv/storage-faults kv/kv kv/kv-calls kv/kv-random"
ninja -C build-threads tests/io/test-disk tests/kv/test-storage tests/kv/test-storage-limits \
  tests/kv/test-storage-faults tests/kv/test-kv tests/kv/test-kv-calls tests/kv/test-kv-random
export TSAN_OPTIONS="halt_on_error=1:suppressions=$PWD/tests/support/thread-sanitizer.supp"
exec meson test -C build-threads --no-rebuild --print-errorlogs --timeout-multiplier 10 $tests
