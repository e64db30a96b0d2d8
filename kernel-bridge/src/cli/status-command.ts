/** `tpulab status`: whether a gateway runs, and its kernels. */
import { Command } from 'commander';
import { isLingering } from '../keeper/index.js';
import { stateFolder } from '../server/state-folder.js';
import { lingerAdvice } from './linger-advice.js';
import { type OutputOptions, say, type Streams } from './output.js';
import { RunningGateway } from './running-gateway.js';

interface StatusOptions extends OutputOptions {
  readonly stateDir?: string;
}

export function statusCommand(streams: Streams): Command {
  return new Command('status')
    .description('show the gateway that serves a state folder, and its kernels')
    .option('--state-dir <folder>', 'state folder of the gateway (default: $XDG_STATE_HOME/tpulab)')
    .option('--json', 'print JSON')
    .action(async (options: StatusOptions) => {
      const gateway = await RunningGateway.find(stateFolder(options.stateDir));
      const kernels = gateway.health.status === 'ok' ? await gateway.kernels() : [];
      const { url, pid } = gateway.record;
      const { status, version, startedAt } = gateway.health;
      const lines = kernels.map(
        ({ id, name, execution_state, connections }) =>
          `  ${id}  ${name}  ${execution_state}  ${connections} clients`
      );
      const head = `${url} (pid ${pid}, version ${version}, since ${startedAt}): ${status}, ${kernels.length} kernels`;
      const lingering = await isLingering();
      const text = [head, ...lines, ...lingerAdvice(lingering)].join('\n');
      say(streams, options, { url, pid, status, version, startedAt, lingering, kernels }, text);
    });
}
