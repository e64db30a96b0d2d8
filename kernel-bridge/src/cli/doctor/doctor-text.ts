/** What `tpulab doctor` shows to people: a line for each thing looked at, and below it what to do. */
import type { RemoteCheck } from '@tpulab/protocol';

const MARKS: Readonly<Record<RemoteCheck['state'], string>> = { ok: 'ok', warning: 'look', failed: 'WRONG' };
const MARK_WIDTH = 7;

/** What was found in one place. */
export interface Findings {
  readonly place: string;
  readonly checks: readonly RemoteCheck[];
}

export function doctorText(findings: readonly Findings[]): string {
  return [...findings.map(section), verdict(findings)].join('\n\n');
}

function section({ place, checks }: Findings): string {
  const width = Math.max(...checks.map(({ name }) => name.length)) + 2;
  const lines = checks.flatMap(({ name, state, message, remedy }) => {
    const line = `  ${MARKS[state].padEnd(MARK_WIDTH)}${name.padEnd(width)}${message}`;
    return state === 'ok' || remedy === null
      ? [line]
      : [line, `${' '.repeat(2 + MARK_WIDTH + width)}→ ${remedy}`];
  });
  return [place, ...lines].join('\n');
}

function verdict(findings: readonly Findings[]): string {
  const all = findings.flatMap(({ checks }) => checks);
  const count = (state: RemoteCheck['state']): number => all.filter(check => check.state === state).length;
  const [wrong, look] = [count('failed'), count('warning')];
  if (wrong === 0 && look === 0) return 'All is well.';
  if (wrong === 0) return `Nothing is wrong; ${look} to look at.`;
  return `${wrong} wrong, ${look} to look at.`;
}
