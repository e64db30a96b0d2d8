/**
 * `tpulab runs`: lists the stored training runs of the running server, shows one, and explains why one is slower than
 * another.
 */
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { makeFolder } from '@tpulab/platform/missing-files.js';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type CodeLocation,
  compareRuns,
  checkpointSteps,
  curvesCsv,
  type ControlAction,
  ControlMessage,
  durationText,
  type HyperValue,
  MediaMessage,
  StoredRun,
  StoredRuns,
  type StoredRunSummary,
  percentText,
  type RunComparison,
  runsJson
} from '@tpulab/protocol';
import { Command, Option } from 'commander';
import { plainText } from '@tpulab/platform/plain-text.js';
import {
  chosenGateway,
  GatewayRefusal,
  ofState,
  type RunningGateway,
  type StateOptions
} from './running-gateway.js';
import { CommandError, print, type Streams, written } from './output.js';
import { eventsOf, isReadable } from './tensorboard-events.js';

const SPANS = { device: 'device', input: 'input', host: 'host', gap: 'idle' } as const;

export function runsCommand(streams: Streams): Command {
  const runs = new Command('runs').description('list, show and compare the stored training runs');
  const which = 'key of the run, or its name for the newest run of that name';
  ofState(
    runs.command('list', { isDefault: true }).description('show the training runs, newest first')
  ).action(async (options: StateOptions) => {
    const found = await (await chosenGateway(options)).request(StoredRuns, 'GET', 'bridge/v1/runs');
    const text = found.runs.map(line).join('\n');
    print(streams, options, found, text === '' ? 'No training run is stored.' : text);
  });
  ofState(runs.command('show').description('show one run: its state, metrics, time split and settings'))
    .argument('<run>', which)
    .action(async (requested: string, options: StateOptions) => {
      const run = await read(await chosenGateway(options), requested);
      print(streams, options, run, runText(run));
    });
  ofState(runs.command('compare').description('show why one run takes longer per step than another'))
    .argument('<run>', which)
    .argument('<other>', 'the other run')
    .action(async (one: string, other: string, options: StateOptions) => {
      const gateway = await chosenGateway(options);
      const found = compareRuns(await read(gateway, one), await read(gateway, other));
      const { a, b, ...rest } = found;
      print(streams, options, { a: a.key, b: b.key, ...rest }, comparisonText(found));
    });
  ofState(
    runs
      .command('steer')
      .description('pause, resume or stop a running training, or request one of its actions')
  )
    .argument('<run>', which)
    .argument('<action>', `${STEERED.join(', ')}, or the name that the notebook gave to run.action`)
    .action(async (requested: string, action: string, options: StateOptions) => {
      const gateway = await chosenGateway(options);
      const answer = await steer(gateway, await find(gateway, requested), action);
      print(streams, options, answer, answerText(answer, action));
    });
  ofState(
    runs
      .command('branch')
      .description('let the next run begin at a checkpoint of this one, with one value changed')
  )
    .argument('<run>', which)
    .option('--step <number>', 'step of the checkpoint (default: the last one)')
    .option('--set <name=value>', 'hyperparameter and its value')
    .action(async (requested: string, options: StateOptions & { step?: string; set?: string }) => {
      const gateway = await chosenGateway(options);
      const answer = await branch(gateway, await read(gateway, requested), options);
      print(streams, options, answer, plainText(answer.reason ?? ''));
    });
  ofState(runs.command('export').description('write runs as files'))
    .argument('<run...>', which)
    .addOption(
      new Option(
        '--to <format>',
        'csv and json: one file; tensorboard: a folder for TensorBoard, and for W&B by "wandb sync"'
      )
        .choices(['csv', 'json', 'tensorboard'])
        .default('csv')
    )
    .requiredOption('--out <path>', 'the file or folder')
    .action(async (requested: readonly string[], options: StateOptions & { to: string; out: string }) => {
      const gateway = await chosenGateway(options);
      const found: StoredRun[] = [];
      for (const each of requested) found.push(await read(gateway, each));
      const { to, out } = options;
      let leftOut = 0;
      await written(found.length === 1 ? 'The run' : 'The runs', out, async () => {
        if (to !== 'tensorboard') await writeFile(out, (to === 'csv' ? curvesCsv : runsJson)(found));
        for (const run of to === 'tensorboard' ? found : []) {
          const folder = path.join(out, run.key);
          const media = await mediaOf(gateway, run);
          leftOut += (run.media?.length ?? 0) - media.length;
          await makeFolder(folder);
          await writeFile(path.join(folder, `events.out.tfevents.0.${run.key}`), eventsOf(run, media));
        }
      });
      const without =
        leftOut === 0
          ? ''
          : ` Left out: ${leftOut} pictures, sounds or texts that are not stored or damaged.`;
      print(streams, options, { out, leftOut }, `Wrote ${found.length} to ${plainText(out)}.${without}`);
    });
  return runs;
}

const STEERED: readonly ControlAction[] = ['pause', 'resume', 'stop', 'checkpoint', 'evaluate', 'sample'];
const POLL_MS = 500;

/** Waits for the result: a run applies a command between two steps. Throws if the command was not applied. */
async function steer(
  gateway: RunningGateway,
  { kernelId, run }: StoredRunSummary,
  requested: string
): Promise<ControlMessage> {
  const match = STEERED.find(action => action === requested);
  const command = {
    id: randomUUID(),
    run,
    ...(match ? { action: match } : { action: 'call', name: requested })
  };
  for (;;) {
    // Repeating the same command only queries its result; it is not applied twice.
    const answer = await gateway.request(ControlMessage, 'POST', `bridge/v1/kernels/${kernelId}/control`, {
      json: command
    });
    if (answer.phase === 'applied') return answer;
    if (answer.phase !== 'accepted')
      throw new CommandError(
        'control_refused',
        plainText(answer.reason ?? `The run has ${answer.phase} it.`)
      );
    await delay(POLL_MS);
  }
}

async function branch(
  gateway: RunningGateway,
  { kernelId, run, name, bands, commands, hyperparameters }: StoredRun,
  options: { readonly step?: string; readonly set?: string }
): Promise<ControlMessage> {
  const steps = checkpointSteps({ bands, commands });
  const step = options.step === undefined ? Math.max(...steps) : Number(options.step);
  if (!steps.includes(step)) {
    const known = steps.length === 0 ? 'it has none' : `it has ${steps.slice(-10).join(', ')}`;
    throw new CommandError('control_refused', `${plainText(name)} has no such checkpoint: ${known}.`);
  }
  const change = options.set === undefined ? {} : changeIn(options.set, hyperparameters);
  return gateway.request(ControlMessage, 'POST', `bridge/v1/kernels/${kernelId}/control`, {
    json: { id: randomUUID(), action: 'branch', run, step, ...change }
  });
}

function changeIn(text: string, known: StoredRun['hyperparameters']): { name: string; value: HyperValue } {
  const [, name = '', value = ''] = /^([^=]*)=(.*)$/.exec(text) ?? [];
  const parameter = known.find(one => one.name === name);
  if (!parameter) {
    const names = known.map(one => one.name).join(', ') || 'none';
    throw new CommandError(
      'control_refused',
      `The run has no hyperparameter "${plainText(name)}"; it has: ${names}.`
    );
  }
  if (typeof parameter.value === 'string') return { name, value };
  if (typeof parameter.value === 'boolean') return { name, value: value === 'true' };
  if (value !== '' && Number.isFinite(Number(value))) return { name, value: Number(value) };
  throw new CommandError('control_refused', `${plainText(name)} is a number, not "${plainText(value)}".`);
}

function answerText({ step, durationMs, reason }: ControlMessage, requested: string): string {
  const lasted = durationMs === null ? '' : ` in ${durationText(durationMs)}`;
  return plainText(`${requested}: done at step ${step ?? 0}${lasted}${reason === null ? '' : `: ${reason}`}`);
}

/** The media that are still stored, and can be read. */
async function mediaOf(gateway: RunningGateway, { key, media = [] }: StoredRun): Promise<MediaMessage[]> {
  const found: MediaMessage[] = [];
  for (const { id } of media) {
    try {
      const medium = await gateway.request(MediaMessage, 'GET', `bridge/v1/runs/${key}/media/${id}`);
      if (isReadable(medium)) found.push(medium);
    } catch (error) {
      if (!(error instanceof GatewayRefusal && error.code === 'run_not_found')) throw error;
    }
  }
  return found;
}

async function read(gateway: RunningGateway, requested: string): Promise<StoredRun> {
  return gateway.request(StoredRun, 'GET', `bridge/v1/runs/${(await find(gateway, requested)).key}`);
}

async function find(gateway: RunningGateway, requested: string): Promise<StoredRunSummary> {
  const { runs } = await gateway.request(StoredRuns, 'GET', 'bridge/v1/runs');
  const found = runs.find(({ key }) => key === requested) ?? runs.find(({ name }) => name === requested);
  if (found !== undefined) return found;
  throw new GatewayRefusal(
    'run_not_found',
    `No training run has the key or name ${JSON.stringify(requested)}; "tpulab runs" lists the stored runs.`
  );
}

function line({
  key,
  name,
  state,
  steps,
  totalSteps,
  startedAt,
  metrics,
  stepMs,
  document
}: StoredRunSummary): string {
  return [
    plainText(name),
    state,
    `${steps}${totalSteps === null ? '' : ` of ${totalSteps}`} steps`,
    ...(stepMs === undefined ? [] : [`${durationText(stepMs)} a step`]),
    ...Object.entries(metrics)
      .slice(0, 3)
      .map(([metric, value]) => `${plainText(metric)} ${Number(value.toPrecision(4))}`),
    new Date(startedAt).toISOString().slice(0, 19),
    ...(document === undefined ? [] : [plainText(document)]),
    key
  ].join('  ');
}

function runText(run: StoredRun): string {
  const { inputMs, hostMs, compileMs, deviceMs, gapMs } = run.totals;
  const split = { device: deviceMs, input: inputMs, host: hostMs, compile: compileMs, idle: gapMs };
  const whole = Object.values(split).reduce((sum, ms) => sum + ms, 0);
  const shares = Object.entries(split).map(([span, ms]) => `${span} ${share(ms, whole)}`);
  const rows: readonly (readonly [string, readonly string[]])[] = [
    ['time', shares],
    ['metrics', Object.entries(run.metrics).map(([name, value]) => `${name} ${value}`)],
    ['settings', Object.entries(run.config).map(([name, value]) => `${name}=${String(value)}`)],
    ['machine', run.machine === undefined ? [] : [run.machine]],
    ['tags', run.labels?.tags ?? []],
    ['note', run.labels?.note === undefined ? [] : [run.labels.note]]
  ];
  const shown = rows.filter(([, values]) => values.length > 0);
  return [
    line(run),
    ...shown.map(([label, values]) => `  ${label.padEnd(9)}${plainText(values.join(', '))}`)
  ].join('\n');
}

function comparisonText(found: RunComparison): string {
  const { verdict, a, b, meansOfA, meansOfB, grew, changed, added, differing } = found;
  const [nameOfA, nameOfB] = [a, b].map(run => plainText(a.name === b.name ? run.key : run.name)) as [
    string,
    string
  ];
  const more = (meansOfB?.stepMs ?? 0) - (meansOfA?.stepMs ?? 0);
  const head = {
    slower: `${nameOfB} takes ${durationText(more)} more per step than ${nameOfA}.`,
    same: `${nameOfA} and ${nameOfB} take the same time per step.`,
    recompiles: `${nameOfB} compiles again in every few steps, ${nameOfA} does not.`,
    'too-early': 'A comparison needs 10 steady steps of each run.',
    'other-machine': `Steps are not compared: ${nameOfA} ran on ${a.machine ?? 'an unknown machine'}, ${nameOfB} on ${b.machine ?? 'an unknown machine'}.`
  }[verdict];
  const isTimed = verdict !== 'other-machine' && verdict !== 'too-early' && meansOfA && meansOfB;
  return [
    head,
    ...(isTimed
      ? [`  ${'step'.padEnd(8)}${durationText(meansOfA.stepMs)} and ${durationText(meansOfB.stepMs)}`]
      : []),
    ...(isTimed
      ? grew.map(
          ({ span, ms }) =>
            `  ${SPANS[span].padEnd(8)}${durationText(meansOfA.spans[span])} and ${durationText(meansOfB.spans[span])} (${ms < 0 ? '-' : '+'}${durationText(Math.abs(ms))})`
        )
      : []),
    ...changed.map(({ function: name, b: program }) => `Program changed: ${name}${place(program.location)}`),
    ...added.map(program => `Compiled beyond ${nameOfA}: ${program.function}${place(program.location)}`),
    ...differing.map(name => `${name}: ${String(a.config[name])} and ${String(b.config[name])}`)
  ]
    .map(each => plainText(each))
    .join('\n');
}

function place(location: CodeLocation | null): string {
  if (location === null || location.line === null) return '';
  const { executionCount, file, line: number } = location;
  return ` (${executionCount === null ? (file ?? 'a cell') : `cell [${executionCount}]`}, line ${number})`;
}

const share = (ms: number, whole: number): string => percentText(whole > 0 ? (100 * ms) / whole : 0);
