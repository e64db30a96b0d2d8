/** Decides from its facts whether a host is usable, and which remedy helps otherwise, before the host is changed. */
import { type RemoteCheck, sizeText } from '@tpulab/protocol';
import type { ChipTable } from '../chips/chip-table.js';
import type { HostFacts } from './probe-script.js';
import type { Accelerator, Definition } from '../environments/definition.js';

export interface CheckContext {
  readonly facts: HostFacts;
  readonly chips: ChipTable;
  /** Unix seconds here, before the query and after the answer: the host read its clock in between. */
  readonly requestedAt: number;
  readonly now: number;
  /** Space that the installation still needs there; 0 if everything is installed. */
  readonly neededBytes: number;
  readonly environment: {
    readonly name: string;
    /** Chip generations that its libtpu supports; null if the environment is only for CPUs. */
    readonly chips: readonly string[] | null;
  };
}

type Judge = (context: CheckContext) => RemoteCheck | null;

const GIB = 2 ** 30;
/** Required by Node's builds for Linux. */
const MIN_GLIBC: readonly [number, number] = [2, 28];
/** With less, importing the frameworks alone is killed. */
const MIN_MEMORY_BYTES = 2 * GIB;
/** An environment has tens of thousands of files. */
const MIN_INODES = 60_000;
/** Above this, times shown side by side are misleading; far above it, TLS certificates count as not yet valid. */
const CLOCK_WARNING_S = 5;
const CLOCK_LIMIT_S = 24 * 3600;
const NEEDED_PROGRAMS = ['flock', 'tar', 'gzip', 'sha256sum', 'setsid'];

/** All checks, in the order in which people read them. */
export function checkHost(context: CheckContext): RemoteCheck[] {
  return JUDGES.flatMap(judge => judge(context) ?? []);
}

const architecture: Judge = ({ facts: { system, machine } }) => {
  if (system === 'Linux' && (machine === 'x86_64' || machine === 'aarch64'))
    return ok('architecture', `Linux ${machine}`);
  return failed(
    'architecture',
    `${system || 'unknown system'} ${machine}`,
    'The server runs on Linux with x86_64 or aarch64; choose another machine.'
  );
};

const libc: Judge = ({ facts: { glibc } }) => {
  if (glibc !== null && (glibc[0] > MIN_GLIBC[0] || (glibc[0] === MIN_GLIBC[0] && glibc[1] >= MIN_GLIBC[1])))
    return ok('glibc', glibc.join('.'));
  return failed(
    'glibc',
    glibc === null ? 'the C library is not glibc' : `glibc ${glibc.join('.')} is too old`,
    `Node needs glibc ${MIN_GLIBC.join('.')} or newer; use an image with Ubuntu 20.04 or newer (TPU images have 22.04).`
  );
};

const programs: Judge = ({ facts }) => {
  const missing = NEEDED_PROGRAMS.filter(name => !facts.programs.has(name));
  if (!facts.programs.has('python3') && !facts.programs.has('unzip')) missing.push('unzip');
  if (missing.length === 0) return ok('programs', 'all required programs found');
  return failed(
    'programs',
    `${missing.join(', ')} not found`,
    'Install them: "sudo apt-get install util-linux tar gzip coreutils unzip".'
  );
};

const disk: Judge = ({ facts: { diskFreeBytes, base, isWritable, noexec, inodesFree }, neededBytes }) => {
  if (!isWritable)
    return failed(
      'disk',
      `${base} cannot be written`,
      'Check who owns the folder and whether the disk is mounted read-only.'
    );
  if (noexec !== null)
    return failed(
      'disk',
      `${base} is on a file system that is mounted noexec (${noexec}), so no program can run from it`,
      `Ask for the mount option exec ("sudo mount -o remount,exec ${noexec}"), or link the folder to one on another disk before you connect: ln -s /OTHER/DISK ${base}`
    );
  if (inodesFree !== null && inodesFree < MIN_INODES && neededBytes > 0)
    return failed(
      'disk',
      `only ${inodesFree} files can still be made for ${base} (inodes), ${MIN_INODES} are needed`,
      'Remove files that nobody needs there ("df -i" shows how many there are), or use a larger disk.'
    );
  if (diskFreeBytes === null) return warning('disk', 'free space unknown', null);
  const free = `${sizeText(diskFreeBytes)} free for ${base}`;
  if (diskFreeBytes >= neededBytes) return ok('disk', free);
  return failed(
    'disk',
    `${free}, ${sizeText(neededBytes)} needed`,
    'Free some space, or give the VM a larger boot disk (Compute Engine images have 10 GB by default).'
  );
};

const memory: Judge = ({ facts: { memoryBytes, memoryAvailableBytes } }) => {
  if (memoryBytes === null) return warning('memory', 'memory unknown', null);
  const text = `${sizeText(memoryBytes)}${memoryAvailableBytes === null ? '' : `, ${sizeText(memoryAvailableBytes)} available`}`;
  return memoryBytes >= MIN_MEMORY_BYTES
    ? ok('memory', text)
    : warning(
        'memory',
        text,
        `JAX and PyTorch need at least ${sizeText(MIN_MEMORY_BYTES)}; choose a larger machine.`
      );
};

const clock: Judge = ({ facts: { time }, requestedAt, now }) => {
  // The precision depends on the speed of the answer: a clock that may be right causes no warning.
  const ahead =
    time < requestedAt ? time - requestedAt : time > now ? time - now : Number.isNaN(time) ? NaN : 0;
  if (!Number.isFinite(ahead)) return warning('clock', 'clock unknown', null);
  if (Math.abs(ahead) <= CLOCK_WARNING_S) return ok('clock', 'in sync');
  const text = `${Math.abs(ahead).toFixed(0)} s ${ahead > 0 ? 'ahead of' : 'behind'} this machine's`;
  const remedy = 'Run "sudo timedatectl set-ntp true" on the machine whose clock is wrong.';
  return Math.abs(ahead) > CLOCK_LIMIT_S ? failed('clock', text, remedy) : warning('clock', text, remedy);
};

const chipsPresent: Judge = ({ facts, chips }) => {
  const names = chipNames(facts, chips);
  if (names.length > 0) return ok('chips', `${names.length} × ${[...new Set(names)].join(', ')}`);
  if (facts.nodes.length > 0)
    return warning(
      'chips',
      `${facts.nodes.join(', ')}, but no known chip by PCI ID`,
      'Check that this VM is a TPU VM. You can add a new chip generation to the table (docs/devices.md).'
    );
  return warning('chips', 'no TPU chips; kernels run on the CPU', 'Choose a TPU VM if you want chips.');
};

const holders: Judge = ({ facts }) => {
  if (facts.nodes.length === 0) return null;
  if (facts.holders.length === 0) return ok('chips in use', 'no process that you can see holds the chips');
  const text = facts.holders
    .map(({ pid, user, command }) => `${command || 'process'} ${pid} of ${user || 'unknown'}`)
    .join(', ');
  return warning(
    'chips in use',
    `held by ${text}`,
    'Only one process at a time can use the chips. Once connected, "tpulab ps --machine NAME" shows which kernel it is and can end it if TPULab started it.'
  );
};

const fit: Judge = ({ facts, chips, environment }) => {
  const names = [...new Set(chipNames(facts, chips))];
  if (names.length === 0) return ok('environment', `${environment.name}, on the CPU`);
  if (environment.chips === null)
    return warning(
      'environment',
      `${environment.name} is for CPUs, but the machine has chips`,
      'Choose an environment for TPUs: "tpulab connect NAME --environment jax".'
    );
  const unsupported = names.filter(name => !environment.chips?.includes(name));
  if (unsupported.length === 0) return ok('environment', `${environment.name} supports ${names.join(', ')}`);
  return warning(
    'environment',
    `the libtpu of ${environment.name} is untested with ${unsupported.join(', ')}`,
    `It supports ${environment.chips.join(', ')}. If JAX finds no TPU, choose another environment.`
  );
};

const lingering: Judge = ({ facts: { lingers, user } }) => {
  if (lingers === null) return null;
  if (lingers) return ok('log-out', 'programs keep running when you log out');
  return warning(
    'log-out',
    'the system may end your programs when you log out',
    `Run "sudo loginctl enable-linger ${user}" there once.`
  );
};

const JUDGES: readonly Judge[] = [
  architecture,
  libc,
  programs,
  disk,
  memory,
  clock,
  chipsPresent,
  holders,
  fit,
  lingering
];

export function ok(name: string, message: string): RemoteCheck {
  return { name, state: 'ok', message, remedy: null };
}

export function warning(name: string, message: string, remedy: string | null): RemoteCheck {
  return { name, state: 'warning', message, remedy };
}

export function failed(name: string, message: string, remedy: string | null): RemoteCheck {
  return { name, state: 'failed', message, remedy };
}

/** One name for each chip: `['v5e', 'v5e', …]`; unknown devices of the vendor (disks, network cards) are omitted. */
export function chipNames(facts: HostFacts, chips: ChipTable): string[] {
  return facts.pciDevices.flatMap(({ device, subsystem }) => chips.byPci(device, subsystem)?.name ?? []);
}

/** Whether kernels there must use chips, so that a missing TPU is an error instead of a run on the CPU. */
export function hasChips(facts: HostFacts, chips: ChipTable): boolean {
  return facts.nodes.length > 0 || chipNames(facts, chips).length > 0;
}

/** The accelerator for which an environment is created there. */
export function acceleratorFor(
  facts: HostFacts,
  chips: ChipTable,
  { description }: Pick<Definition, 'description'>
): Accelerator {
  return hasChips(facts, chips) && description.tpu !== undefined ? 'tpu' : 'cpu';
}
