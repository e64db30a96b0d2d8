/** Reads what `colab` prints. Lines that it is not asked for (an update banner, pruned sessions) can stand anywhere and are ignored. */

export interface ColabUsage {
  /** Compute units; 0 on an account that has never bought any. */
  readonly balance: number;
  /** Of all that runs on the account now, in compute units an hour. */
  readonly ratePerHour: number;
  readonly runtimes: number;
}

/** A runtime of the account. */
export interface ListedRuntime {
  /** As the session file calls it; null: it has no record of this one. */
  readonly session: string | null;
  readonly endpoint: string;
  /** `V5E1` */
  readonly hardware: string;
}

type Lines = readonly string[];

export function parseVersion(lines: Lines): string | null {
  return firstMatch(lines, /^Version: (\S+)$/)?.[1] ?? null;
}

/** `ssh` came with 0.7.2; what is no number is a build of somebody's own. */
export function knowsSsh(version: string): boolean {
  const numbers = /^(\d+)\.(\d+)\.(\d+)/.exec(version);
  if (!numbers) return true;
  const [major = 0, minor = 0, patch = 0] = numbers.slice(1).map(Number);
  return major * 1e6 + minor * 1e3 + patch >= 7_002;
}

export function parseUsage(lines: Lines): ColabUsage | null {
  const balance = numberOf(lines, /^Current balance: (-?\d+(?:\.\d+)?) compute units$/);
  const ratePerHour = numberOf(lines, /^Usage rate: (\d+(?:\.\d+)?)\/hr$/);
  const runtimes = numberOf(lines, /^Active assignments: (\d+)$/);
  return balance === null || ratePerHour === null || runtimes === null
    ? null
    : { balance, ratePerHour, runtimes };
}

/** Of `sessions` and `status`. */
export function parseRuntimes(lines: Lines): ListedRuntime[] {
  return lines.flatMap(line => {
    const match = /^\[([^\]]+)\] (\S+) \| Hardware: (\S+) \| /.exec(line);
    if (!match) return [];
    const [, session = '', endpoint = '', hardware = ''] = match;
    return [{ session: session === '?' ? null : session, endpoint, hardware }];
  });
}

/** Whether `status` or `stop` says that there is no such session. */
export function isNotFound(lines: Lines, session: string): boolean {
  return lines.includes(`[colab] Session '${session}' not found.`);
}

function numberOf(lines: Lines, pattern: RegExp): number | null {
  const found = firstMatch(lines, pattern)?.[1];
  return found === undefined ? null : Number(found);
}

function firstMatch(lines: Lines, pattern: RegExp): RegExpExecArray | null {
  for (const line of lines) {
    const match = pattern.exec(line.trim());
    if (match) return match;
  }
  return null;
}
