/** Parses the findings of `host/probe.sh` on a host. */
import { SetupError } from './stage-reporter.js';

/** The findings of the probe on a host, as typed values. */
export interface HostFacts {
  /** Unix seconds by the host's clock. */
  readonly time: number;
  readonly system: string;
  readonly machine: string;
  /** `[2, 35]`; null if the C library is not glibc. */
  readonly glibc: readonly [number, number] | null;
  readonly user: string;
  readonly home: string;
  /** Absolute path of our folder there. */
  readonly base: string;
  readonly isWritable: boolean;
  /** Mount point of the file system that forbids running our programs; null: they may run. */
  readonly noexec: string | null;
  readonly inodesFree: number | null;
  readonly diskFreeBytes: number | null;
  readonly memoryBytes: number | null;
  readonly memoryAvailableBytes: number | null;
  readonly programs: ReadonlySet<string>;
  readonly python3: string | null;
  /** Whether programs outlive the log-out of this user; null if systemd does not run. */
  readonly lingers: boolean | null;
  readonly pciDevices: readonly PciDevice[];
  readonly nodes: readonly string[];
  readonly holders: readonly HostHolder[];
  readonly have: ReadonlySet<string>;
  readonly gateway: HostGateway | null;
  /** The accelerator for which the requested environment was made there; null if it does not exist. */
  readonly environmentFor: 'cpu' | 'tpu' | null;
}

interface PciDevice {
  readonly address: string;
  readonly device: string;
  readonly subsystem: string | null;
  readonly node: string | null;
}

interface HostHolder {
  readonly pid: number;
  readonly user: string;
  readonly node: string;
  readonly command: string;
}

/** A gateway that runs on the host. */
export interface HostGateway {
  readonly socketPath: string;
  readonly token: string;
  readonly gatewayId: string;
  /** The bridge folder from which the gateway runs, relative to ours; empty while it starts. */
  readonly bridge: string;
  /** The setup that started the gateway; null if unknown. */
  readonly starter: { readonly sender: string; readonly tookOver: boolean } | null;
}

/** @throws SetupError `setup_host_garbled` if the output is not from the probe */
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
  // A shell's start-up files may print; a missing last line means that the output was cut off.
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

/** If the record names another bridge, the gateway was started by an older version, which writes no record. */
function starterOf(text: string, bridge: string): HostGateway['starter'] {
  const [of = '', sender = '', tookOver] = text.split(' ');
  return of === bridge && sender !== '' ? { sender, tookOver: tookOver === 'yes' } : null;
}
