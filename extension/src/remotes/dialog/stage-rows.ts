/** The stages of connecting as displayed: past, present and future ones. No DOM. */
import { durationText, type Remote, type RemoteStage, transferText } from '@tpulab/protocol';
import { trans } from '../../text/trans.js';

export interface IStageRow {
  readonly name: string;
  readonly title: string;
  readonly state: RemoteStage['state'] | 'to-come';
  /** Its result and duration; for the running stage, its present activity. */
  readonly detail: string;
  readonly fraction: number | null;
  /** Progress and speed of a download; empty: no download is running. */
  readonly amount: string;
}

export interface IProgress {
  readonly rows: readonly IStageRow[];
  /** The present activity, as a sentence. */
  readonly doing: string;
  /** From 1. */
  readonly step: number;
  /** 0 to 1, of all steps. */
  readonly fraction: number;
}

/** In this order; installation stages are listed separately only once one of them is known to have work. */
const STAGES_BEFORE_INSTALL = ['gcloud', 'ssh', 'check'] as const;
const INSTALLATION = ['node', 'bridge', 'uv', 'python', 'environment'] as const;
const GATEWAY = 'gateway';
/** The other hosts of a slice, a row each, in the order of their numbers. */
const HOST = /^host-\d+$/;

export function progressOf(remote: Remote): IProgress {
  const { source, install, stages, environment } = remote;
  const reported = new Map(stages.map(stage => [stage.name, stage]));
  const isCloudRemote = source.kind === 'gcloud';
  const before = STAGES_BEFORE_INSTALL.filter(
    name => reported.has(name) || name !== 'gcloud' || isCloudRemote
  );
  // Stages before ssh, such as the creation of a Colab runtime, stand above it.
  const sshAt = stages.findIndex(({ name }) => name === 'ssh');
  const others = stages.map(({ name }, at) => ({ name, isEarly: sshAt < 0 || at < sshAt }));
  const named = (isEarly: boolean): string[] =>
    others
      .filter(one => !isInstallStage(one.name) && !HOST.test(one.name) && one.isEarly === isEarly)
      .map(({ name }) => name);
  const hosts = others.map(({ name }) => name).filter(name => HOST.test(name));
  const names = [
    ...[...named(true), ...before, ...named(false)],
    ...[...installationNames(reported, install), GATEWAY, ...hosts]
  ];
  const rows = names.map((name): IStageRow => {
    const stage = name === 'install' ? asOneStage(reported) : reported.get(name);
    return {
      name,
      title: titleOf(name, stage, environment),
      state: stage?.state ?? 'to-come',
      detail: stage ? detailOf(stage) : '',
      fraction: stage?.fraction ?? null,
      amount: stage?.state === 'running' && stage.transfer ? transferText(stage.transfer) : ''
    };
  });
  const now = rows.findLastIndex(({ state }) => state === 'running');
  const ended = rows.filter(({ state }) => state === 'done' || state === 'skipped').length;
  const at = now < 0 ? Math.min(ended, rows.length - 1) : now;
  return {
    rows,
    doing: doingText(rows[at]?.name ?? '', rows[at]?.title ?? '', environment),
    step: at + 1,
    fraction: (at + (rows[at]?.fraction ?? 0)) / rows.length
  };
}

function isInstallStage(name: string): boolean {
  return [...STAGES_BEFORE_INSTALL, ...INSTALLATION, 'install', GATEWAY].includes(name);
}

/** One row for the whole installation until the missing parts are known, and if nothing was missing. */
function installationNames(reported: ReadonlyMap<string, RemoteStage>, install: boolean): readonly string[] {
  if (!install) return [];
  const hasBegun = INSTALLATION.some(name => reported.has(name) && reported.get(name)?.state !== 'skipped');
  if (hasBegun) return INSTALLATION.filter(name => reported.get(name)?.state !== 'skipped');
  return ['install'];
}

/** The whole installation as one stage, once it is certain that nothing is missing. */
function asOneStage(reported: ReadonlyMap<string, RemoteStage>): RemoteStage | undefined {
  return reported.has(GATEWAY) ? reported.get('bridge') : undefined;
}

function titleOf(name: string, stage: RemoteStage | undefined, environment: string): string {
  switch (name) {
    case 'gcloud':
      return trans.__('Find the VM');
    case 'ssh':
      return trans.__('Connect with ssh');
    case 'check':
      return trans.__('Check the machine');
    case 'install':
      return trans.__('Install what is missing');
    case 'node':
      return trans.__('Node.js');
    case 'bridge':
      return trans.__('TPULab server');
    case 'environment':
      return trans.__('%1 environment', environmentName(environment));
    case GATEWAY:
      return trans.__('Start the TPULab server');
    case 'python':
      return trans.__('Python');
    default:
      return stage?.title ?? name;
  }
}

function doingText(name: string, title: string, environment: string): string {
  switch (name) {
    case 'gcloud':
      return trans.__('Finding the VM');
    case 'ssh':
      return trans.__('Connecting with ssh');
    case 'check':
      return trans.__('Checking the machine');
    case 'install':
      return trans.__('Checking what is missing');
    case 'environment':
      return trans.__('Installing the %1 environment', environmentName(environment));
    case GATEWAY:
      return trans.__('Starting the TPULab server');
    default:
      return INSTALLATION.some(one => one === name) ? trans.__('Installing %1', title) : title;
  }
}

/** The usual spelling of `jax`; other environments keep their names. */
export function environmentName(name: string): string {
  return name === 'jax' ? 'JAX' : name;
}

function detailOf({ state, detail, durationMs }: RemoteStage): string {
  const took = durationMs === undefined || state === 'running' ? null : durationText(durationMs);
  // The reason of a failed stage is shown once, above all stages.
  const found =
    state === 'failed' ? trans.__('failed') : state === 'skipped' ? trans.__('already installed') : detail;
  return [found, took].filter(part => part !== null && part !== '').join(' · ');
}
