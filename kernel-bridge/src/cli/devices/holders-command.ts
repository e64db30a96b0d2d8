/** `tpulab holders`: who holds the chips of the machine, and getting them back. */
import { Command, InvalidArgumentError } from 'commander';
import { chosenGateway, type StateOptions } from '../chosen-gateway.js';
import { say, type Streams } from '../output.js';
import { holdersText } from './holders-text.js';

interface HoldersOptions extends StateOptions {
  readonly end?: number;
  readonly removeLock?: true;
  readonly remote?: string;
}

export function holdersCommand(streams: Streams): Command {
  return new Command('holders')
    .description("show who holds this machine's chips: process, user, kernel, notebook, idle time")
    .option(
      '--end <pid>',
      "shut down the kernel that owns this process (this gateway's kernels only)",
      processId
    )
    .option('--remove-lock', "remove libtpu's lock file, if its owner is gone")
    .option('--remote <name>', "show the chips of a connected remote instead of this machine's")
    .option('--state-dir <folder>', "state folder of the gateway (default: the running one's)")
    .option('--json', 'print JSON')
    .action(async (options: HoldersOptions) => {
      const gateway = await chosenGateway(options);
      const { remote } = options;
      if (options.end !== undefined) await gateway.endHolder(options.end, remote);
      if (options.removeLock === true) await gateway.removeLock(remote);
      const page = await gateway.holders(remote);
      say(streams, options, page, holdersText(page, remote));
    });
}

function processId(text: string): number {
  if (!/^[1-9]\d{0,9}$/.test(text)) throw new InvalidArgumentError('Expected the number of a process.');
  return Number(text);
}
