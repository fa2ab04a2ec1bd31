#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Builds the kernels for 64-bit Arm in build-arm and runs their tests in an emulator,
# each set on a processor that has no better one. Debian's GLib for that
# processor is unpacked in build-arm: nothing is installed.
set -eu
cd "$(dirname "$0")/.."
sysroot="$PWD/build-arm/sysroot"

# apt with lists of its own, as if this were an Arm machine.
arm_apt () {
  apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
    -o APT::Sandbox::User=root -o Acquire::Languages=none \
    -o Dir::State::status=/dev/null -o Dir::State::lists="$PWD/lists" \
    -o Dir::Cache="$PWD/cache" "$@"
}

if [ ! -d "$sysroot" ]; then
  rm -rf build-arm
  mkdir -p build-arm/apt/lists/partial build-arm/apt/cache/archives/partial build-arm/unpacked
  (cd build-arm/apt
   arm_apt update
   arm_apt download libglib2.0-0 libglib2.0-dev libpcre2-8-0 libpcre2-dev
   for package in *.deb; do
     dpkg-deb -x "$package" ../unpacked
   done)
  rm -rf build-arm/apt
  mv build-arm/unpacked "$sysroot"
fi

if [ ! -f build-arm/build.ninja ]; then
  printf "[constants]\nsysroot = '%s'\n" "$sysroot" >build-arm/sysroot.ini
  meson setup build-arm --cross-file build-arm/sysroot.ini --cross-file scripts/cross-aarch64.ini \
    -Dkernels_only=true -Dwerror=true
fi
ninja -C build-arm

# What is run where a better set is not must not meet its instructions either. PROCESSOR PROGRAM
# PREFIX a line, those first that take longest: each is one thread, and as many run as there are
# processors. All sets have the same attention.
xargs -P "$(nproc)" -L 1 sh -c '
  QEMU_CPU=$1 exec meson test -C build-arm --no-rebuild --print-errorlogs --timeout-multiplier 10 \
    --logbase "testlog-$1$(echo "$3" | tr / -)" --test-args "-r $3" "kernels/$2"' run <<'TESTS'
cortex-a57 kv /kv
cortex-a57 products /products
cortex-a76 products /products/dotprod
max products /products/i8mm
cortex-a57 attention /attention/neon
cortex-a57 pieces /pieces
cortex-a76 pieces /pieces/dotprod
max pieces /pieces/i8mm
cortex-a57 panels /panels
cortex-a57 activations /activations
cortex-a57 formats /formats
cortex-a57 kernels /kernels
cortex-a57 w8 /w8
cortex-a76 w8 /w8/dotprod
max w8 /w8/i8mm
cortex-a76 kernels /kernels
max kernels /kernels
TESTS
