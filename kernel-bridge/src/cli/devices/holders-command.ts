/** `tpulab ps`: who holds the chips of the machine, and getting them back. */
import { Command, InvalidArgumentError } from 'commander';
import { chosenGateway, type StateOptions } from '../chosen-gateway.js';
import { say, type Streams } from '../output.js';
import { holdersText } from './holders-text.js';

interface HoldersOptions extends StateOptions {
  readonly end?: number;
  readonly removeLock?: true;
  readonly machine?: string;
}

export function holdersCommand(streams: Streams): Command {
  return new Command('ps')
    .description("list the processes that use this machine's chips: user, kernel, notebook, idle time")
    .option(
      '--end <pid>',
      'shut down the kernel that owns this process (kernels of this server only)',
      processId
    )
    .option('--remove-lock', "remove libtpu's lock file if its owner has ended")
    .option('--machine <name>', "show the chips of a connected machine instead of this computer's")
    .option('--state-dir <folder>', "state folder of the server (default: the running one's)")
    .option('--json', 'print JSON')
    .action(async (options: HoldersOptions) => {
      const gateway = await chosenGateway(options);
      const { machine } = options;
      if (options.end !== undefined) await gateway.endHolder(options.end, machine);
      if (options.removeLock === true) await gateway.removeLock(machine);
      const page = await gateway.holders(machine);
      say(streams, options, page, holdersText(page, machine));
    });
}

function processId(text: string): number {
  if (!/^[1-9]\d{0,9}$/.test(text)) throw new InvalidArgumentError('PID must be a number.');
  return Number(text);
}
