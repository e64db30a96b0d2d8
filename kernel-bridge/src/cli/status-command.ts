/** `tpulab status`: whether a gateway runs, and its kernels. */
import { Command } from 'commander';
import { isLingering } from '../keeper-client/index.js';
import { chosenStateFolder } from './chosen-gateway.js';
import { lingerAdvice } from './linger-advice.js';
import { type OutputOptions, say, type Streams } from './output.js';
import { RunningGateway } from './running-gateway.js';

interface StatusOptions extends OutputOptions {
  readonly stateDir?: string;
}

export function statusCommand(streams: Streams): Command {
  return new Command('status')
    .description('show the gateway of a state folder and its kernels')
    .option('--state-dir <folder>', "state folder of the gateway (default: the running one's)")
    .option('--json', 'print JSON')
    .action(async (options: StatusOptions) => {
      const gateway = await RunningGateway.find(await chosenStateFolder(options.stateDir));
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
      say(streams, options, { url, pid, status, version, startedAt, lingering, kernels }, text);
    });
}
