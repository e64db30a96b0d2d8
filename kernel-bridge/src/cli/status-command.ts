/**
 * `tpulab status`: whether a server runs, and its kernels; `tpulab stop`: ends the server, and with `--kernels` also its kernels.
 */
import { Command } from 'commander';
import { chosenGateway, type StateOptions } from './running-gateway.js';
import { print, type Streams } from './output.js';
import { isLingering } from '../keeper-client/user-scope.js';

interface StopOptions extends StateOptions {
  readonly kernels?: true;
}

export function statusCommand(streams: Streams): Command {
  return new Command('status')
    .description('show the server of a state folder and its kernels')
    .option('--state-dir <folder>', "the server's state folder (default: the running server's)")
    .option('--json', 'print JSON')
    .action(async (options: StateOptions) => {
      const gateway = await chosenGateway(options);
      const kernels = gateway.health.status === 'ok' ? await gateway.kernels() : [];
      const { url, pid } = gateway.record;
      const { status, version, startedAt } = gateway.health;
      const lines = kernels.flatMap(({ id, name, execution_state, connections, journal_fault }) => [
        `  ${id}  ${name}  ${execution_state}  ${connections} clients`,
        ...(journal_fault === undefined ? [] : [`    output at risk: ${journal_fault}`])
      ]);
      const head = `${url} (pid ${pid}, version ${version}, since ${startedAt}): ${status}, ${kernels.length} kernels`;
      const lingering = await isLingering();
      const text = [head, ...lines, ...lingerAdvice(lingering)].join('\n');
      print(streams, options, { url, pid, status, version, startedAt, lingering, kernels }, text);
    });
}

/** `lingering` is null if systemd does not run; no advice is needed then. */
export function lingerAdvice(lingering: boolean | null): readonly string[] {
  return lingering === false
    ? [
        'Kernels may end when you log out of this machine. After "loginctl enable-linger", new kernels keep running.'
      ]
    : [];
}

export function stopCommand(streams: Streams): Command {
  return new Command('stop')
    .description('stop the server of a state folder; its kernels keep running unless --kernels is given')
    .option('--state-dir <folder>', "the server's state folder (default: the running server's)")
    .option('--kernels', 'shut all kernels down first')
    .option('--json', 'print JSON')
    .action(async (options: StopOptions) => {
      const gateway = await chosenGateway(options);
      const kernels = await gateway.kernels();
      if (options.kernels === true) await Promise.all(kernels.map(({ id }) => gateway.removeKernel(id)));
      await gateway.stop();
      const ended = options.kernels === true ? kernels.length : 0;
      const remaining = kernels.length - ended;
      const { pid } = gateway.record;
      const text = `The server (pid ${pid}) has ended; ${ended} kernels were shut down, ${remaining} are still running.`;
      print(streams, options, { pid, kernelsShutDown: ended, kernelsLeft: remaining }, text);
    });
}
