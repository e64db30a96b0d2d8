/** For specs: a program in its own terminal, which closes after the program has ended. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

interface AtTerminal {
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** Input that is typed before the prompt appears. */
  readonly typed?: string;
}

const IN_TERMINAL = `import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))`;

/** Resolves after the terminal has closed, with all of its output. */
export async function inTerminal(
  argv: readonly string[],
  { cwd, env, typed = '' }: AtTerminal = {}
): Promise<{ readonly code: number; readonly output: string }> {
  const child = spawn('python3', ['-c', IN_TERMINAL, ...argv], {
    stdio: ['pipe', 'pipe', 'inherit'],
    ...(cwd === undefined ? {} : { cwd }),
    ...(env === undefined ? {} : { env })
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString('utf8')));
  child.stdin.end(typed);
  const [code] = (await once(child, 'close')) as [number];
  return { code, output };
}
