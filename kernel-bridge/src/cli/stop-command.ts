/** `tpulab stop`: ends the gateway, and with `--kernels` its kernels first. */
import { Command } from 'commander';
import { chosenGateway, type StateOptions } from './chosen-gateway.js';
import { say, type Streams } from './output.js';

interface StopOptions extends StateOptions {
  readonly kernels?: true;
}

export function stopCommand(streams: Streams): Command {
  return new Command('stop')
    .description('stop the server of a state folder; its kernels keep running unless --kernels is given')
    .option('--state-dir <folder>', "state folder of the server (default: the running one's)")
    .option('--kernels', 'shut all kernels down first')
    .option('--json', 'print JSON')
    .action(async (options: StopOptions) => {
      const gateway = await chosenGateway(options);
      const kernels = await gateway.kernels();
      if (options.kernels === true) await Promise.all(kernels.map(({ id }) => gateway.removeKernel(id)));
      await gateway.stop();
      const ended = options.kernels === true ? kernels.length : 0;
      const left = kernels.length - ended;
      const { pid } = gateway.record;
      const text = `The server (pid ${pid}) has ended; ${ended} kernels were shut down, ${left} go on.`;
      say(streams, options, { pid, kernelsShutDown: ended, kernelsLeft: left }, text);
    });
}
