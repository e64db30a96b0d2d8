/** `tpulab devices`: the chips of the machine that the running gateway serves, who holds them, and what they do. */
import { setTimeout as wait } from 'node:timers/promises';
import { Command } from 'commander';
import { chosenStateFolder } from '../chosen-gateway.js';
import { type OutputOptions, say, type Streams } from '../output.js';
import { RunningGateway } from '../running-gateway.js';
import { devicesText } from './devices-text.js';

interface DevicesOptions extends OutputOptions {
  readonly stateDir?: string;
  readonly watch?: true;
}

const WATCH_MS = 1_000;

/** @param end ends `--watch`; Ctrl+C when absent */
export function devicesCommand(streams: Streams, end?: AbortSignal): Command {
  return new Command('devices')
    .description("show this machine's chips, their utilisation and who holds them")
    .option('--watch', 'repeat every second until Ctrl+C')
    .option('--state-dir <folder>', "state folder of the gateway (default: the running one's)")
    .option('--json', 'print one line of JSON each time')
    .action(async (options: DevicesOptions) => {
      const gateway = await RunningGateway.find(await chosenStateFolder(options.stateDir));
      const show = async (): Promise<void> => {
        const page = await gateway.devices();
        say(streams, options, page, devicesText(page));
      };
      if (options.watch !== true) return show();
      const interrupted = new AbortController();
      const interrupt = (): void => interrupted.abort();
      const signal = end ?? interrupted.signal;
      process.once('SIGINT', interrupt);
      try {
        while (!signal.aborted) {
          await show();
          await wait(WATCH_MS, undefined, { signal }).catch(() => undefined);
        }
      } finally {
        process.off('SIGINT', interrupt);
      }
    });
}
