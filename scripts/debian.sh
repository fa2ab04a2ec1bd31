# SPDX-License-Identifier: LGPL-2.1-or-later
# A fresh Debian 12 and the project's sources in it. Sourced, in the project's folder, by the scripts that
# test there; they set $cache, where trees are kept, $work, a folder of their own, and $mirror.

# make_base LOG: the smallest Debian, in $base, from the cache or by debootstrap
make_base () {
  base="$cache/minbase"
  [ -d "$base" ] && return
  debootstrap --variant=minbase bookworm "$work/minbase" ${mirror:+"$mirror"} >"$1" 2>&1 </dev/null || return
  rm -rf "$work"/minbase/var/cache/apt/archives/*.deb
  mv "$work/minbase" "$base"
}

copy_tree () {
  cp -a --reflink=auto "$1" "$2"
}

list_sources () {
  if [ -d .git ] && command -v git >/dev/null; then
    git -c safe.directory="$PWD" ls-files --cached --others --exclude-standard -z
  else
    find . -path './build*' -prune -o -type f -print0
  fi | xargs -0 sh -c 'for file; do [ ! -f "$file" ] || printf "%s\0" "$file"; done' sh | LC_ALL=C sort -z
}

# copy_sources FOLDER
copy_sources () {
  mkdir -p "$1"
  list_sources | tar --create --null --files-from=- | tar --extract --directory="$1" --no-same-owner
}

# enter ROOT TMP COMMAND: COMMAND as root in that tree, with the network, in name spaces of its own whose
# processes end with it; TMP is disk or tmpfs: what /tmp is
enter () {
  unshare --mount --pid --fork --kill-child sh -c '
    set -eu
    mount --make-rprivate /
    mount --bind "$1" "$1"
    mount -t proc proc "$1/proc"
    mount --rbind /dev "$1/dev"
    mount --rbind /sys "$1/sys"
    [ "$2" = disk ] || mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
    cp /etc/resolv.conf "$1/etc/resolv.conf"
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
      chroot "$1" sh -c "$3"' sh "$1" "$2" "$3" </dev/null
}
