/** `tpulab disconnect`: ends the connection to a remote, and with `--stop` the Colab runtime itself. */
import { Command } from 'commander';
import type { Remote } from '@tpulab/protocol';
import type { StateOptions } from '../chosen-gateway.js';
import { say, type Streams } from '../output.js';
import { RemoteCalls } from './remote-calls.js';

interface DisconnectOptions extends StateOptions {
  readonly stop?: true;
}

export function disconnectCommand(streams: Streams): Command {
  return new Command('disconnect')
    .description('disconnect from a machine; its kernels keep running')
    .argument('<name>')
    .option('--stop', 'Colab: end the runtime too, with its kernels and files, and check that it has ended')
    .option('--state-dir <folder>', "the server's state folder (default: the running server's)")
    .option('--json', 'print JSON')
    .action(async (name: string, options: DisconnectOptions) => {
      const calls = await RemoteCalls.find(options.stateDir);
      const remote = await calls.disconnect(name, options.stop === true);
      say(streams, options, remote, disconnectedText(remote, options.stop === true));
    });
}

function disconnectedText({ name, source }: Remote, isStopped: boolean): string {
  if (isStopped) return `${name} is disconnected, and its Colab runtime has ended.`;
  if (source.kind !== 'colab') return `${name} is disconnected.`;
  return `${name} is disconnected. Its Colab runtime keeps running and uses compute units; end it with "tpulab disconnect ${name} --stop".`;
}
