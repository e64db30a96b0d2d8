/** The single report of a keeper on descriptor 3, and the wait for it. */
import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { deadline } from '@tpulab/platform/waiting.js';
import { KeeperError, type KeeperErrorCode } from './keeper-error.js';

/** Time for Node and one native module on a cold, busy machine. */
const START_MS = 60_000;

/** Either the keeper listens, or the reason why it does not. */
export type StartReport =
  | { readonly ready: true }
  | { readonly ready: false; readonly code: KeeperErrorCode; readonly message: string };

export interface ReportOptions {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Thrown when systemd-run could not run anything, or Node could not load the program: the keeper itself would have reported
 * why it ends.
 */
export class NotStartedError extends KeeperError {}

export function reportOf(child: ChildProcess, options: ReportOptions, logFile: string): Promise<StartReport> {
  const within = deadline(options.timeoutMs ?? START_MS, options.signal);
  const { signal } = within;
  const reported = new Promise<StartReport>((resolve, reject) => {
    let text = '';
    const pipe = child.stdio[3] as Readable;
    const fail = (why: string, cause?: unknown, Kind = KeeperError): void => {
      signal.removeEventListener('abort', onAbort);
      reject(new Kind('keeper_start_failed', `The keeper did not start: ${why}; see ${logFile}.`, { cause }));
    };
    const onAbort = (): void =>
      options.signal?.aborted === true ? reject(signal.reason as Error) : fail('it said nothing in time');
    signal.addEventListener('abort', onAbort, { once: true });
    child.once('error', error => fail(error.message, error, NotStartedError));
    child.once('exit', (code, by) => {
      if (text === '') {
        const how = by === null ? `it exited with code ${code}` : `it was killed by ${by}`;
        fail(how, undefined, code === 1 ? NotStartedError : KeeperError);
      }
    });
    pipe.setEncoding('utf8').on('data', (part: string) => (text += part));
    pipe.once('error', error => fail(error.message, error));
    pipe.once('end', () => {
      if (text === '') {
        return; // The keeper is ending; its exit code shows how.
      }
      signal.removeEventListener('abort', onAbort);
      try {
        resolve(JSON.parse(text) as StartReport);
      } catch (error) {
        fail('it said nothing that can be understood', error);
      }
    });
  });
  return reported.finally(() => within[Symbol.dispose]());
}

/** Resolves with the keeper once it listens; rejects with its report after sending it `signal`. */
export async function listening(
  child: ChildProcess,
  reported: Promise<StartReport>,
  signal: NodeJS.Signals
): Promise<ChildProcess> {
  try {
    const report = await reported;
    if (!report.ready) throw new KeeperError(report.code, report.message);
    return child;
  } catch (error) {
    child.kill(signal);
    throw error;
  } finally {
    child.stdio[3]?.destroy();
    child.unref();
  }
}
