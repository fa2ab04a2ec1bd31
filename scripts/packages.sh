#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Which Debian packages the project needs, and how to have them. Sourced by
# ./try and ./check; run by itself it installs what a whole build needs,
# without the tests.

# The service, the library in C and the command line.
BUILD_PACKAGES="gcc libc6-dev meson ninja-build pkg-config gettext dbus-daemon dbus-bin
  libglib2.0-bin libglib2.0-dev libjson-glib-dev libncurses-dev libreadline-dev libpcre2-dev
  libsoup-3.0-dev libsqlite3-dev libsystemd-dev liburing-dev libxxhash-dev"
# Bindings, man pages and the documentation: what a distribution builds, too.
BINDING_PACKAGES="gobject-introspection libgirepository1.0-dev valac gi-docgen lowdown"
TEST_PACKAGES="python3 python3-gi python3-jsonschema python3-matplotlib python3-numpy python3-torch libopenblas0 systemd libxml2-utils g++ gjs
  gir1.2-gtk-4.0 librsvg2-common xvfb xdotool mandoc bash bash-completion zsh fish valgrind libc6-dbg
  gcc-aarch64-linux-gnu libc6-dev-arm64-cross
  qemu-user-static"
# The packages, and what installs and tests them in a Debian of their own.
SYSTEM_TEST_PACKAGES="debootstrap lintian systemd-container"

# What apt and dpkg say, as one line on a terminal, and into $packages_log.
show_packages () {
  while read -r line; do
    echo "$line" >>"$packages_log"
    case $line in
      Unpacking* | Setting\ up*)
        [ ! -t 2 ] || printf '\r\033[KPackages: %.60s' "${line% ...}" >&2 ;;
    esac
  done
  [ ! -t 2 ] || printf '\r\033[K' >&2
}

# Installs those of the given packages that are missing.
install_packages () {
  missing=""
  # one call for all: each takes a while
  installed=" $(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null |
    sed -n 's/ installed$//p' | tr '\n' ' ')"
  for package in "$@"; do
    case $installed in *" $package "*) ;; *) missing="$missing $package" ;; esac
  done
  [ -n "$missing" ] || return 0

  if ! command -v apt-get >/dev/null; then
    echo "This script installs packages with apt-get, which is not here. Install these by hand:$missing" >&2
    return 1
  fi
  as_root=""
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "These packages are missing, and there is no sudo. As root: apt-get install$missing" >&2
      return 1
    fi
    as_root="sudo"
  fi
  echo "Installing:$missing" >&2
  packages_log=$(mktemp)
  { $as_root env DEBIAN_FRONTEND=noninteractive sh -c "apt-get -q update &&
      apt-get -q install -y --no-install-recommends $missing" </dev/null 2>&1 ||
    echo "The packages can't be installed." >>"$packages_log.failed"; } | show_packages
  if [ -e "$packages_log.failed" ]; then
    tail -n 20 "$packages_log" "$packages_log.failed" >&2
    rm -f "$packages_log" "$packages_log.failed"
    return 1
  fi
  rm -f "$packages_log"
}

case $0 in
  *packages.sh) install_packages $BUILD_PACKAGES $BINDING_PACKAGES ;;
esac
