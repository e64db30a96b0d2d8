/** CPU, memory, disk and network of this machine. On Linux all values come from /proc; elsewhere Node reports CPU and memory. */
import { readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { HostFigures } from '@tpulab/protocol';

/** Monotonic counters, with the time at which they were read. */
interface Counters {
  readonly atMs: number;
  readonly cpuBusy: number;
  readonly cpuAll: number;
  readonly disk: readonly [read: number, written: number] | null;
  readonly network: readonly [received: number, sent: number] | null;
}

/** The unit of /proc/diskstats, whatever the disk's own sector size is. */
const SECTOR_BYTES = 512;
/** Only whole disks: partitions, and layers over other disks, would count bytes twice. */
const DISKS = /^(sd[a-z]+|nvme\d+n\d+|vd[a-z]+|xvd[a-z]+|hd[a-z]+|mmcblk\d+)$/;
/** Bridges and tunnels repeat the traffic of a real interface. */
const NOT_NETWORKS = /^(lo|docker|br-|veth|virbr|tun|tap|bond|cni|flannel|cali)/;

interface HostLoadOptions {
  /** Replaces `/` in specs. */
  readonly root?: string;
  readonly platform?: NodeJS.Platform;
  readonly now?: () => number;
}

export class HostLoad {
  readonly #root: string;
  readonly #isLinux: boolean;
  readonly #now: () => number;
  #last: Counters | null = null;

  constructor({
    root = '/',
    platform = process.platform,
    now = () => performance.now()
  }: HostLoadOptions = {}) {
    this.#root = root;
    this.#isLinux = platform === 'linux';
    this.#now = now;
  }

  /** Rates cover the time since the last reading, and are null at the first one. */
  async read(): Promise<HostFigures> {
    const stat = this.#proc('stat');
    const disks = this.#proc('diskstats');
    const networks = this.#proc('net/dev');
    const memory = this.#proc('meminfo');
    const current: Counters = {
      atMs: this.#now(),
      ...(stat === null ? cpuOfNode() : cpuOf(stat)),
      disk: disks === null ? null : diskOf(disks),
      network: networks === null ? null : networkOf(networks)
    };
    const before = this.#last;
    this.#last = current;
    const seconds = before ? (current.atMs - before.atMs) / 1000 : 0;
    const rate = (of: 'disk' | 'network', index: 0 | 1): number | null => {
      const [now, then] = [current[of]?.[index], before?.[of]?.[index]];
      // A removed disk or network reduces the counters.
      return now === undefined || then === undefined || seconds <= 0
        ? null
        : Math.max(0, now - then) / seconds;
    };
    const all = before ? current.cpuAll - before.cpuAll : 0;
    return {
      cpuPercent:
        before && all > 0
          ? Math.min(100, Math.max(0, (100 * (current.cpuBusy - before.cpuBusy)) / all))
          : null,
      cores: Math.max(1, os.availableParallelism()),
      load1: os.loadavg()[0] ?? null,
      ...(memory === null ? memoryOfNode() : memoryOf(memory)),
      diskReadBytesPerS: rate('disk', 0),
      diskWrittenBytesPerS: rate('disk', 1),
      networkReceivedBytesPerS: rate('network', 0),
      networkSentBytesPerS: rate('network', 1)
    };
  }

  /**
   * Read synchronously: the kernel answers from memory in microseconds, and a worker thread would cost a tenth of a percent
   * of a core.
   */
  #proc(name: string): string | null {
    if (!this.#isLinux) return null;
    try {
      return readFileSync(path.join(this.#root, 'proc', name), 'utf8');
    } catch {
      return null;
    }
  }
}

function cpuOf(stat: string): Pick<Counters, 'cpuBusy' | 'cpuAll'> {
  // user nice system idle iowait irq softirq steal; user already includes guest time.
  const ticks = (/^cpu +(.*)$/m.exec(stat)?.[1] ?? '').split(/\s+/).slice(0, 8).map(Number);
  const all = ticks.reduce((sum, one) => sum + one, 0);
  return { cpuAll: all, cpuBusy: all - (ticks[3] ?? 0) - (ticks[4] ?? 0) };
}

function cpuOfNode(): Pick<Counters, 'cpuBusy' | 'cpuAll'> {
  let [cpuBusy, cpuAll] = [0, 0];
  for (const { times } of os.cpus()) {
    const busy = times.user + times.nice + times.sys + times.irq;
    cpuBusy += busy;
    cpuAll += busy + times.idle;
  }
  return { cpuBusy, cpuAll };
}

function diskOf(diskstats: string): [number, number] {
  let [read, written] = [0, 0];
  for (const line of diskstats.split('\n')) {
    const fields = line.trim().split(/\s+/);
    if (!DISKS.test(fields[2] ?? '')) continue;
    read += Number(fields[5] ?? 0) * SECTOR_BYTES;
    written += Number(fields[9] ?? 0) * SECTOR_BYTES;
  }
  return [read, written];
}

function networkOf(dev: string): [number, number] {
  let [received, sent] = [0, 0];
  for (const line of dev.split('\n')) {
    const [, name = '', figures = ''] = /^\s*([^:\s]+):\s*(.*)$/.exec(line) ?? [];
    if (name === '' || NOT_NETWORKS.test(name)) continue;
    const fields = figures.split(/\s+/);
    received += Number(fields[0] ?? 0);
    sent += Number(fields[8] ?? 0);
  }
  return [received, sent];
}

/** Unavailable memory: droppable caches do not count as used. */
function memoryOf(meminfo: string): Pick<HostFigures, 'memoryUsedBytes' | 'memoryTotalBytes'> {
  const bytes = (name: string): number | null => {
    const kib = new RegExp(`^${name}: +(\\d+) kB$`, 'm').exec(meminfo)?.[1];
    return kib === undefined ? null : Number(kib) * 1024;
  };
  const [total, available] = [bytes('MemTotal'), bytes('MemAvailable')];
  return {
    memoryTotalBytes: total,
    memoryUsedBytes: total === null || available === null ? null : Math.max(0, total - available)
  };
}

function memoryOfNode(): Pick<HostFigures, 'memoryUsedBytes' | 'memoryTotalBytes'> {
  return { memoryTotalBytes: os.totalmem(), memoryUsedBytes: os.totalmem() - os.freemem() };
}
