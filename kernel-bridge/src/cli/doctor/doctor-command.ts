/** `tpulab doctor`: checks this computer, and a TPU VM if one is named, and prints a remedy for each problem. */
import type { RemoteCheck } from '@tpulab/protocol';
import { Command, Option } from 'commander';
import { chosenStateFolder, type StateOptions } from '../running-gateway.js';
import { print, type Streams } from '../output.js';
import type { TargetOptions } from '../remotes/connect-target.js';
import { checkHere } from './local-checks.js';
import { checkRemote } from './remote-checks.js';

interface DoctorOptions extends StateOptions, TargetOptions {
  readonly envDir?: string;
  readonly environment?: string;
  readonly ssh: string;
}

export function doctorCommand(streams: Streams): Command {
  return new Command('doctor')
    .description('find problems on this computer or a TPU VM and say how to fix them')
    .argument('[target]', 'a machine, or a target of `tpulab connect`: HOST, USER@HOST, gcloud:NAME')
    .option('--zone <zone>', 'zone of a Google Cloud machine')
    .option('--project <project>', "Google Cloud: project (default: gcloud's own)")
    .option('--internal-ip', 'connect to its internal address')
    .option('--tunnel-through-iap', 'tunnel through Identity-Aware Proxy (IAP)')
    .addOption(new Option('--iap', 'the same').implies({ tunnelThroughIap: true }))
    .option('--environment <name>', 'environment to install there (default: jax)')
    .option('--state-dir <folder>', "the server's state folder (default: the running server's)")
    .option('--env-dir <folder>', 'folder of environments (default: the XDG data folder)')
    .option('--ssh <program>', 'OpenSSH client to use', 'ssh')
    .option('--json', 'print JSON')
    .action(async (target: string | undefined, options: DoctorOptions) => {
      const interrupted = new AbortController();
      const interrupt = (): void => interrupted.abort(new Error('interrupted'));
      process.once('SIGINT', interrupt);
      try {
        const findings = await examine(target, options, interrupted.signal);
        print(streams, options, { findings }, doctorText(findings));
        if (findings.some(({ checks }) => checks.some(({ state }) => state === 'failed')))
          process.exitCode = 1;
      } finally {
        process.off('SIGINT', interrupt);
      }
    });
}

async function examine(
  target: string | undefined,
  options: DoctorOptions,
  signal: AbortSignal
): Promise<readonly Findings[]> {
  const stateDir = await chosenStateFolder(options.stateDir);
  const here = checkHere({ stateDir, envDir: options.envDir, env: process.env, signal });
  const there =
    target === undefined
      ? null
      : checkRemote({
          ...options,
          target,
          stateDir,
          environment: options.environment,
          sshProgram: options.ssh,
          signal
        });
  const [local, remote] = await Promise.all([here, there]);
  return [
    { place: 'this computer', checks: local },
    ...(target === undefined || remote === null ? [] : [{ place: target, checks: remote }])
  ];
}

const MARKS: Readonly<Record<RemoteCheck['state'], string>> = { ok: 'ok', warning: 'look', failed: 'WRONG' };
const MARK_WIDTH = 7;

/** The results of the checks of one place. */
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
  const [errors, warnings] = [count('failed'), count('warning')];
  if (errors === 0 && warnings === 0) return 'No problems.';
  return `${counted(errors, 'error')}, ${counted(warnings, 'warning').toLowerCase()}`;
}

function counted(count: number, what: string): string {
  return `${count === 0 ? 'No' : count} ${what}${count === 1 ? '' : 's'}`;
}
