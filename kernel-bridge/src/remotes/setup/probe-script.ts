/**
 * Looks at a host: one script in POSIX sh that changes nothing, one line `KEY<tab>VALUE` for each thing that it found.
 *
 * `$1` the folder (relative to the home folder, or absolute), `$2` what stands for `/` where devices, sysfs and proc are
 * (empty: `/`), then the paths below the folder whose presence is requested.
 */ import { SetupError } from './stage-reporter.js';
export const PROBE_SCRIPT = `
LC_ALL=C; export LC_ALL
root=$2
case $1 in /*) base=$1 ;; *) base=$HOME/$1 ;; esac
shift 2
say() { printf '%s\\t%s\\n' "$1" "$2"; }
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
say inodes_free "$(df -Pi "$place" 2>/dev/null | { read -r _; read -r _ _ _ free _; printf '%s' "$free"; })"
if [ -w "$place" ]; then
  say writable yes
  # Whether a file there runs is seen by running one: mount options are told in many ways.
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
  for accel in "$at"/accel/*; do [ -e "$accel" ] && node=/dev/\${accel##*/}; done
  group=$(readlink "$at/iommu_group" 2>/dev/null)
  [ -z "$node" ] && [ -n "$group" ] && [ -e "$root/dev/vfio/\${group##*/}" ] && node=/dev/vfio/\${group##*/}
  say pci "\${at##*/} $(line "$at/device") $(line "$at/subsystem_device") $node"
done
for node in "$root"/dev/accel* "$root"/dev/vfio/[0-9]*; do
  [ -e "$node" ] && say node "\${node#"$root"}"
done
for process in "$root"/proc/[0-9]*; do
  for file in "$process"/fd/*; do
    [ -L "$file" ] || continue
    target=$(readlink "$file" 2>/dev/null) || continue
    case $target in
      /dev/accel*|/dev/vfio/[0-9]*)
        pid=\${process##*/}
        say holder "$pid $(stat -c %U "$process" 2>/dev/null) $target $(line "$process/comm")"
        break ;;
    esac
  done
done 2>/dev/null

for path in "$@"; do
  [ -e "$base/$path" ] || continue
  say have "$path"
  case $path in
    envs/*/tpulab.json) say environment_for "$(sed -n 's/^ *"accelerator": *"\\([a-z]*\\)".*/\\1/p' "$base/$path" 2>/dev/null)" ;;
  esac
done
gateway=$base/state/gateway.json
if [ -f "$gateway" ]; then
  record=$(line "$gateway")
  pid=$(printf '%s' "$record" | sed -n 's/.*"pid":\\([0-9]*\\).*/\\1/p')
  if [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null && grep -q tpulab "/proc/$pid/cmdline" 2>/dev/null; then
    say gateway "$record"
    say gateway_socket "$(line "$base/state/gateway.socket")"
    say gateway_bridge "$(line "$base/state/gateway.bridge")"
    say gateway_starter "$(line "$base/state/gateway.starter")"
    say token "$(line "$base/state/token")"
  fi
fi
say end yes
`;

/** What the probe found on a host, as typed values. */
export interface HostFacts {
  /** Unix seconds by the host's clock. */
  readonly time: number;
  readonly system: string;
  readonly machine: string;
  /** `[2, 35]`; null where the C library is another. */
  readonly glibc: readonly [number, number] | null;
  readonly user: string;
  readonly home: string;
  /** Absolute path of our folder there. */
  readonly base: string;
  readonly isWritable: boolean;
  /** Where the file system is mounted on which no program of ours may run; null: they may. */
  readonly noexec: string | null;
  readonly inodesFree: number | null;
  readonly diskFreeBytes: number | null;
  readonly memoryBytes: number | null;
  readonly memoryAvailableBytes: number | null;
  readonly programs: ReadonlySet<string>;
  readonly python3: string | null;
  /** Whether programs outlive the log-out of this user; null where systemd does not run. */
  readonly lingers: boolean | null;
  readonly pciDevices: readonly PciDevice[];
  readonly nodes: readonly string[];
  readonly holders: readonly HostHolder[];
  readonly have: ReadonlySet<string>;
  readonly gateway: HostGateway | null;
  /** What the environment that was asked for was made for there; null where it is not there. */
  readonly environmentFor: 'cpu' | 'tpu' | null;
}

export interface PciDevice {
  readonly address: string;
  readonly device: string;
  readonly subsystem: string | null;
  readonly node: string | null;
}

export interface HostHolder {
  readonly pid: number;
  readonly user: string;
  readonly node: string;
  readonly command: string;
}

/** A gateway that runs there. */
export interface HostGateway {
  readonly socketPath: string;
  readonly token: string;
  readonly gatewayId: string;
  /** The folder of the bridge that it runs from, relative to ours; empty while it is being started. */
  readonly bridge: string;
  /** Whose set-up started it; null where that is not known. */
  readonly starter: { readonly sender: string; readonly tookOver: boolean } | null;
}

/** @throws SetupError `setup_host_garbled` when the output is not that of the probe */
export function parseFacts(output: string, host: string): HostFacts {
  const all = new Map<string, string[]>();
  for (const line of output.split('\n')) {
    const tab = line.indexOf('\t');
    if (tab < 0) continue;
    const key = line.slice(0, tab);
    const values = all.get(key) ?? [];
    all.set(key, values);
    values.push(line.slice(tab + 1).trim());
  }
  const one = (key: string): string => all.get(key)?.at(-1) ?? '';
  // A shell's start-up files may print; without the last line something broke off.
  if (one('end') !== 'yes' || one('base') === '') {
    throw new SetupError(
      'setup_host_garbled',
      `${host} did not answer the probe; check that "ssh ${host} true" works and that your shell's start-up files there print nothing.`,
      { command: `ssh ${host} true` }
    );
  }
  return {
    time: Number.parseFloat(one('time')),
    system: one('system'),
    machine: one('machine'),
    glibc: glibcOf(one('glibc')),
    user: one('user'),
    home: one('home'),
    base: one('base'),
    isWritable: one('writable') === 'yes',
    noexec: all.has('noexec') ? one('noexec') || one('base') : null,
    inodesFree: /^\d+$/.test(one('inodes_free')) ? Number(one('inodes_free')) : null,
    diskFreeBytes: kib(one('disk_free_kib')),
    memoryBytes: kib(one('memory_kib')),
    memoryAvailableBytes: kib(one('memory_available_kib')),
    programs: new Set(all.get('program')),
    python3: one('python3') || null,
    lingers: all.has('lingers') ? one('lingers') === 'yes' : null,
    pciDevices: (all.get('pci') ?? []).map(pciDevice),
    nodes: all.get('node') ?? [],
    holders: (all.get('holder') ?? []).flatMap(holder),
    have: new Set(all.get('have')),
    gateway: gatewayOf(one),
    environmentFor: all.has('environment_for') ? (one('environment_for') === 'tpu' ? 'tpu' : 'cpu') : null
  };
}

function glibcOf(text: string): [number, number] | null {
  const [, major, minor] = /^glibc (\d+)\.(\d+)/.exec(text) ?? [];
  return major === undefined || minor === undefined ? null : [Number(major), Number(minor)];
}

function kib(text: string): number | null {
  return /^\d+$/.test(text) ? Number(text) * 1024 : null;
}

function pciDevice(text: string): PciDevice {
  const [address = '', device = '', subsystem = '', node = ''] = text.split(' ');
  return { address, device, subsystem: subsystem || null, node: node || null };
}

function holder(text: string): HostHolder[] {
  const [, pid, user = '', node = '', command = ''] = /^(\d+) (\S*) (\/dev\/\S+) ?(.*)$/.exec(text) ?? [];
  return pid === undefined ? [] : [{ pid: Number(pid), user, node, command }];
}

function gatewayOf(one: (key: string) => string): HostGateway | null {
  const [record, socketPath, bridge, token] = [
    one('gateway'),
    one('gateway_socket'),
    one('gateway_bridge'),
    one('token')
  ];
  if (record === '' || socketPath === '' || token === '') return null;
  try {
    const parsed = JSON.parse(record) as { gatewayId?: unknown };
    if (typeof parsed.gatewayId !== 'string') return null;
    return {
      socketPath,
      token,
      gatewayId: parsed.gatewayId,
      bridge,
      starter: starterOf(one('gateway_starter'), bridge)
    };
  } catch {
    return null;
  }
}

/** Said of another bridge, it was left by a version that does not write it down. */
function starterOf(text: string, bridge: string): HostGateway['starter'] {
  const [of = '', sender = '', tookOver] = text.split(' ');
  return of === bridge && sender !== '' ? { sender, tookOver: tookOver === 'yes' } : null;
}
