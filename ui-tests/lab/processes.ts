/** Waiting for child processes, and for conditions outside the page. */
import type { ChildProcess } from 'node:child_process';

/** Generous: a computer may be busy with other things. */
export const DEADLINE_MS = 180_000;

const POLL_INTERVAL_MS = 50;

/** Resolves with the first value that is not null; rejects when time is up. */
export async function waitUntil<T>(
  what: string,
  probe: () => Promise<T | null>,
  deadlineMs = DEADLINE_MS
): Promise<T> {
  const end = performance.now() + deadlineMs;
  for (;;) {
    const value = await probe();
    if (value !== null) return value;
    if (performance.now() > end) throw new Error(`${what}: not within ${deadlineMs / 1000} s.`);
    await new Promise(resolve => setTimeout(resolve, POLL_INTERVAL_MS));
  }
}

export function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Whether a gateway that has found its kernels answers: before that it refuses all other requests. */
export async function serves(url: string, token: string): Promise<boolean> {
  try {
    const answer = await fetch(new URL('bridge/v1/health', url), {
      headers: { authorization: `token ${token}` }
    });
    return ((await answer.json()) as { status?: string }).status === 'ok';
  } catch {
    return false;
  }
}
