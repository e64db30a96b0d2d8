/** Asks the user's own gcloud. It is never told to change anything but to make the user's key known to a machine. */
import { spawn } from 'node:child_process';
import { RemoteProblem } from '../remote-error.js';
import { type Asked, explainGcloud } from './gcloud-problem.js';

/** gcloud starts slowly, and makes a key the first time. */
const ANSWER_MS = 120_000;
const OUTPUT_BYTES = 16 * 1024 * 1024;

export interface Gcloud {
  /** Standard output of a command that succeeded. Throws a `RemoteProblem`. */
  ask(args: readonly string[], asked: Asked, signal: AbortSignal): Promise<string>;
}

export function gcloudOnPath(program = 'gcloud'): Gcloud {
  return {
    ask: async (args, asked, signal) => {
      const { code, stdout, stderr } = await runToEnd(program, [...args, '--quiet'], signal);
      if (code !== 0) throw explainGcloud(stderr, asked);
      return stdout;
    }
  };
}

async function runToEnd(
  program: string,
  args: readonly string[],
  signal: AbortSignal
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]);
  const env = { ...process.env, CLOUDSDK_CORE_DISABLE_PROMPTS: '1' };
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env, detached: true });
  const end = (): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    } catch {
      // It has ended meanwhile.
    }
  };
  limit.addEventListener('abort', end, { once: true });
  const read = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      if (read[name].length < OUTPUT_BYTES) read[name] += text;
    });
  }
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    signal.throwIfAborted();
    if (limit.aborted) {
      throw new RemoteProblem(
        'gcloud_failed',
        `gcloud has not answered within ${ANSWER_MS / 1000} s; see whether this computer is online.`
      );
    }
    return { code, ...read };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new RemoteProblem(
      'gcloud_missing',
      'The program gcloud is not on the PATH of the gateway; install the Google Cloud CLI (https://cloud.google.com/sdk/docs/install), or connect with USER@HOST instead.',
      { cause: error }
    );
  } finally {
    limit.removeEventListener('abort', end);
  }
}
