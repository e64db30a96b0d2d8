/** `tpulab status`: whether a gateway runs, and its kernels. */
import { Command } from 'commander';
import { isLingering } from '../keeper-client/index.js';
import { chosenGateway, type StateOptions } from './chosen-gateway.js';
import { lingerAdvice } from './linger-advice.js';
import { say, type Streams } from './output.js';

export function statusCommand(streams: Streams): Command {
  return new Command('status')
    .description('show the server of a state folder and its kernels')
    .option('--state-dir <folder>', "state folder of the server (default: the running one's)")
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
      say(streams, options, { url, pid, status, version, startedAt, lingering, kernels }, text);
    });
}
