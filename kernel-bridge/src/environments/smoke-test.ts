/** Runs an environment's smoke_test.py, which prints one JSON line for each thing that it tried. */
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { EnvironmentError } from './environment-error.js';
import { pythonOf } from './folders.js';
import { runProgram } from './run-program.js';
import { pythonFreeEnv } from './uv.js';

export const SmokeCheck = Type.Object({
  check: Type.String({ description: 'what was tried, in a few words' }),
  ok: Type.Boolean(),
  detail: Type.String({ description: 'what was seen, or what went wrong' }),
  remedy: Type.Union([Type.String(), Type.Null()])
});
export type SmokeCheck = Static<typeof SmokeCheck>;

export interface SmokeTest {
  readonly environment: string;
  readonly script: string;
  /** Of the kernelspec: the test sees the devices that a kernel sees. */
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Never throws for a broken environment: what is wrong is a check that is not ok. */
export async function runSmokeTest(test: SmokeTest): Promise<readonly SmokeCheck[]> {
  const checks: SmokeCheck[] = [];
  const unread: string[] = [];
  let result;
  try {
    result = await runProgram({
      command: pythonOf(test.environment),
      args: ['-P', '-s', test.script],
      env: { ...test.env, ...pythonFreeEnv(process.env), PYTHONUNBUFFERED: '1' },
      timeoutMs: test.timeoutMs,
      signal: test.signal,
      onLine: line => {
        const check = parseLine(line);
        if (check) checks.push(check);
        else unread.push(line);
      }
    });
  } catch (error) {
    return [failed('its Python starts', error instanceof Error ? error.message : String(error))];
  }
  if (test.signal.aborted) throw new EnvironmentError('env_interrupted', 'The check was interrupted.');
  if (result.timedOut) {
    checks.push(failed('the smoke test ends', `it was ended after ${test.timeoutMs / 1000} s`));
  } else if (result.exitCode !== 0 && checks.every(check => check.ok)) {
    // Without a failed check of its own the script broke off: its last words say why.
    const words = unread
      .filter(line => line.trim() !== '')
      .slice(-3)
      .join(' ');
    checks.push(failed('the smoke test ends', words || `exit code ${result.exitCode ?? 'none'}`));
  } else if (checks.length === 0) {
    checks.push(failed('the smoke test reports', 'it printed no result'));
  }
  return checks;
}

function failed(check: string, detail: string): SmokeCheck {
  return { check, ok: false, detail, remedy: 'Create the environment again.' };
}

function parseLine(line: string): SmokeCheck | null {
  if (!line.startsWith('{')) return null;
  try {
    const json: unknown = JSON.parse(line);
    return Value.Check(SmokeCheck, json) ? json : null;
  } catch {
    return null;
  }
}
