/** `tpulab devices`: the chips of the machine that the running gateway serves, who holds them, and what they do. */
import { Command } from 'commander';
import { chosenGateway, type StateOptions } from '../chosen-gateway.js';
import { say, type Streams } from '../output.js';
import { interruptible } from '../interruptible.js';
import { devicesText } from './devices-text.js';
import { pause } from '../../platform/waiting.js';

interface DevicesOptions extends StateOptions {
  readonly watch?: true;
}

const WATCH_MS = 1_000;

/** @param end ends `--watch`; Ctrl+C when absent */
export function devicesCommand(streams: Streams, end?: AbortSignal): Command {
  return new Command('devices')
    .description("show this machine's chips, their utilisation and who holds them")
    .option('--watch', 'repeat every second until Ctrl+C')
    .option('--state-dir <folder>', "state folder of the server (default: the running one's)")
    .option('--json', 'print one line of JSON each time')
    .action(async (options: DevicesOptions) => {
      const gateway = await chosenGateway(options);
      const show = async (): Promise<void> => {
        const page = await gateway.devices();
        say(streams, options, page, devicesText(page));
      };
      if (options.watch !== true) return show();
      await interruptible(
        async interrupted => {
          const signal = end ?? interrupted;
          while (!signal.aborted) {
            await show();
            await pause(WATCH_MS, signal);
          }
        },
        ['SIGINT']
      );
    });
}
