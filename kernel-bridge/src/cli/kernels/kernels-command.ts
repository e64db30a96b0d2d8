/** `tpulab kernels`: the kernels of the running gateway. */
import { plainText } from '@tpulab/platform/plain-text.js';
import { Command } from 'commander';
import {
  chosenGateway,
  chosenStateFolder,
  ofState,
  type RunningGateway,
  type StateOptions
} from '../running-gateway.js';
import { print, type Streams } from '../output.js';
import { chooseKernel, kernelFolder } from './choose-kernel.js';

type Listed = Awaited<ReturnType<RunningGateway['kernels']>>[number] & {
  readonly documents: readonly string[];
};

export function kernelsCommand(streams: Streams): Command {
  const kernels = new Command('kernels').description(
    'list, interrupt, restart and stop the kernels of the running server'
  );
  const one = (name: string, description: string, act: Act): void => {
    ofState(kernels.command(name).description(description))
      .argument('<kernel>', 'kernel id, a unique prefix of it, or the path of its notebook')
      .action(async (requested: string, options: StateOptions) => {
        const gateway = await chosenGateway(options);
        await act({ gateway, kernel: await choose(gateway, requested), options, streams });
      });
  };
  ofState(kernels.command('list').description('show the kernels that run')).action(
    async (options: StateOptions) => {
      const gateway = await chosenGateway(options);
      const all = await listed(gateway);
      print(
        streams,
        options,
        { kernels: all },
        all.length === 0 ? 'No kernel runs.' : all.map(line).join('\n')
      );
    }
  );
  one('show', 'show one kernel, with where its files are', show);
  one('interrupt', 'interrupt what the kernel executes', async ({ gateway, kernel, ...rest }) => {
    await gateway.interruptKernel(kernel.id);
    done(rest, kernel, 'interrupted', `Kernel ${kernel.id} was interrupted.`);
  });
  one(
    'restart',
    'restart the kernel under its id; its outputs stay in the journal',
    async ({ gateway, kernel, ...rest }) => {
      await gateway.restartKernel(kernel.id);
      done(rest, kernel, 'restarted', `Kernel ${kernel.id} was restarted.`);
    }
  );
  one('stop', 'shut the kernel down', async ({ gateway, kernel, ...rest }) => {
    await gateway.removeKernel(kernel.id);
    done(rest, kernel, 'stopped', `Kernel ${kernel.id} was shut down.`);
  });
  return kernels;
}

interface Acting {
  readonly gateway: RunningGateway;
  readonly kernel: Listed;
  readonly options: StateOptions;
  readonly streams: Streams;
}
type Act = (acting: Acting) => Promise<void>;

async function listed(gateway: RunningGateway): Promise<Listed[]> {
  const [kernels, documents] = await Promise.all([gateway.kernels(), gateway.documents()]);
  return kernels.map(kernel => ({
    ...kernel,
    documents: documents.filter(({ kernelId }) => kernelId === kernel.id).map(({ path }) => path)
  }));
}

async function choose(gateway: RunningGateway, requested: string): Promise<Listed> {
  const kernels = await listed(gateway);
  const documents = kernels.flatMap(({ id, documents: paths }) =>
    paths.map(path => ({ path, kernelId: id, ranUntil: null }))
  );
  const id = chooseKernel(
    requested,
    kernels.map(kernel => kernel.id),
    documents
  );
  const found = kernels.find(kernel => kernel.id === id);
  if (found === undefined) throw new Error(`kernel ${id} was selected, but is not listed`);
  return found;
}

function line({ id, name, execution_state: state, connections, documents }: Listed): string {
  return [
    id,
    name,
    state,
    `${connections} ${connections === 1 ? 'client' : 'clients'}`,
    plainText(documents.join(', '))
  ]
    .join('  ')
    .trimEnd();
}

async function show({ kernel, options, streams }: Acting): Promise<void> {
  const folder = kernelFolder(await chosenStateFolder(options.stateDir), kernel.id);
  const text = [
    line(kernel),
    `  last activity  ${kernel.last_activity}`,
    ...(kernel.reason === undefined ? [] : [`  reason         ${kernel.reason}`]),
    ...(kernel.last_end === undefined ? [] : [`  last end       ${kernel.last_end}`]),
    `  files          ${folder}`
  ].join('\n');
  print(streams, options, { ...kernel, folder }, text);
}

function done(
  { options, streams }: Pick<Acting, 'options' | 'streams'>,
  { id, name }: Listed,
  did: string,
  text: string
): void {
  print(streams, options, { id, name, done: did }, text);
}
