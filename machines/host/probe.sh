# shellcheck shell=sh
# Checks a host: changes nothing, and prints one line `KEY<tab>VALUE` for each result.
#
# `$1` the folder (relative to the home folder, or absolute), `$2` the replacement of `/` for devices, sysfs and proc
# (empty: `/`), then the paths below the folder whose existence is requested.
LC_ALL=C; export LC_ALL
root=$2
case $1 in /*) base=$1 ;; *) base=$HOME/$1 ;; esac
shift 2
say() { printf '%s\t%s\n' "$1" "$2"; }
line() { read -r text 2>/dev/null <"$1" && printf '%s' "$text"; }

say time "$(date +%s.%N 2>/dev/null)"
say system "$(uname -s)"
say machine "$(uname -m)"
say glibc "$(getconf GNU_LIBC_VERSION 2>/dev/null)"
say user "$(id -un 2>/dev/null)"
say uid "$(id -u)"
say home "$HOME"
say base "$base"
place=$base
while [ ! -d "$place" ]; do place=$(dirname "$place"); done
say disk_free_kib "$(df -Pk "$place" 2>/dev/null | { read -r _; read -r _ _ _ free _; printf '%s' "$free"; })"
say inodes_free "$(df -Pi "$place" 2>/dev/null | { read -r _; read -r _ all _ free _; [ "$all" = 0 ] || printf '%s' "$free"; })"
if [ -w "$place" ]; then
  say writable yes
  # Only running a file shows whether files there can run: mount options are reported in many ways.
  try=$place/.tpulab-probe-$$
  if printf '#!/bin/sh\nexit 0\n' >"$try" 2>/dev/null; then
    chmod 700 "$try"
    "$try" 2>/dev/null || say noexec "$(df -P "$place" 2>/dev/null | { read -r _; read -r _ _ _ _ _ on; printf '%s' "$on"; })"
  fi
  rm -f "$try"
fi
while read -r name amount _; do
  case $name in MemTotal:) say memory_kib "$amount" ;; MemAvailable:) say memory_available_kib "$amount" ;; esac
done 2>/dev/null <"$root/proc/meminfo"
for name in flock curl wget python3 unzip tar gzip sha256sum setsid; do
  command -v "$name" >/dev/null 2>&1 && say program "$name"
done
say python3 "$(python3 -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null)"
if [ -d "$root/run/systemd/system" ]; then
  if [ -e "$root/var/lib/systemd/linger/$(id -un)" ]; then say lingers yes; else say lingers no; fi
fi

for at in "$root"/sys/bus/pci/devices/*; do
  [ "$(line "$at/vendor")" = 0x1ae0 ] || continue
  node=
  for accel in "$at"/accel/*; do [ -e "$accel" ] && node=/dev/${accel##*/}; done
  group=$(readlink "$at/iommu_group" 2>/dev/null)
  [ -z "$node" ] && [ -n "$group" ] && [ -e "$root/dev/vfio/${group##*/}" ] && node=/dev/vfio/${group##*/}
  say pci "${at##*/} $(line "$at/device") $(line "$at/subsystem_device") $node"
done
for node in "$root"/dev/accel* "$root"/dev/vfio/[0-9]*; do
  [ -e "$node" ] && say node "${node#"$root"}"
done
for process in "$root"/proc/[0-9]*; do
  for file in "$process"/fd/*; do
    [ -L "$file" ] || continue
    target=$(readlink "$file" 2>/dev/null) || continue
    case $target in
      /dev/accel*|/dev/vfio/[0-9]*)
        pid=${process##*/}
        say holder "$pid $(stat -c %U "$process" 2>/dev/null) $target $(line "$process/comm")"
        break ;;
    esac
  done
done 2>/dev/null

for path in "$@"; do
  [ -e "$base/$path" ] || continue
  say have "$path"
  case $path in
    envs/*/tpulab.json) say environment_for "$(sed -n 's/^ *"accelerator": *"\([a-z]*\)".*/\1/p' "$base/$path" 2>/dev/null)" ;;
  esac
done
gateway=$base/state/gateway.json
if [ -f "$gateway" ]; then
  record=$(line "$gateway")
  pid=$(printf '%s' "$record" | sed -n 's/.*"pid":\([0-9]*\).*/\1/p')
  if [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null && grep -q tpulab "/proc/$pid/cmdline" 2>/dev/null; then
    say gateway "$record"
    say gateway_socket "$(line "$base/state/gateway.socket")"
    say gateway_bridge "$(line "$base/state/gateway.bridge")"
    say gateway_starter "$(line "$base/state/gateway.starter")"
    say token "$(line "$base/state/token")"
  fi
fi
say end yes
