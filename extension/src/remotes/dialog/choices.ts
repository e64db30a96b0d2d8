/** The possible targets of a connection, in groups: known remotes, a project's TPU VMs, ssh hosts, and a typed address. No DOM. */
import {
  type AddRemote,
  type CheckReport,
  type Fit,
  fitOf,
  isSameMachine,
  type Remote,
  type RemoteCandidates,
  type RemoteSource
} from '@tpulab/protocol';
import { agoText } from '../../text/moment.js';
import { acceleratorName, sourceName } from '../../backends/remote-names.js';
import { stateText, type Tone, toneOf } from '../state-text.js';
import { isCloud, sourceOf } from '../target.js';
import { trans } from '../../text/trans.js';

export type Target =
  | { readonly kind: 'remote'; readonly name: string }
  | { readonly kind: 'source'; readonly source: AddRemote['source'] };

export interface IChoice {
  /** Unique among all choices. */
  readonly key: string;
  readonly icon: 'chip' | 'cloud' | 'terminal' | 'plus';
  readonly name: string;
  readonly about: string;
  readonly tone: Tone | null;
  readonly state: string;
  /** Beside the state: a round trip, or the time since the last use. */
  readonly figure: string;
  /** Whether the open notebook fits it, from its last check; null where nothing was checked, or the chips are unknown. */
  readonly fit: Fit | null;
  readonly target: Target;
}

export interface IChoiceGroup {
  readonly id: 'typed' | 'recent' | 'machines' | 'colab' | 'hosts';
  readonly choices: readonly IChoice[];
}

interface IAvailable {
  readonly remotes: readonly Remote[];
  /** Null while ssh and gcloud have not answered. */
  readonly candidates: RemoteCandidates | null;
  /** Google Cloud project of typed machines; null for gcloud's own. */
  readonly project: string | null;
  /** Of the last check of the open notebook. */
  readonly report: CheckReport | null;
}

/** Groups without a choice are left out. */
export function choicesFor(
  { remotes, candidates, project, report }: IAvailable,
  text: string,
  now: number
): IChoiceGroup[] {
  const isListed = (source: RemoteSource): boolean => remotes.some(one => isSameMachine(one.source, source));
  const machines = (candidates?.gcloud.machines ?? []).filter(({ source }) => !isListed(source));
  const { state, accelerators = [] } = candidates?.colab ?? {};
  const runtimes = (state === 'ok' ? accelerators : [])
    .map(accelerator => ({ kind: 'colab', accelerator }) as const)
    .filter(source => !isListed(source));
  const hosts = (candidates?.sshHosts ?? [])
    .map(destination => ({ kind: 'ssh', destination }) as const)
    .filter(source => !isListed(source));
  const groups: IChoiceGroup[] = [
    { id: 'recent', choices: remotes.map(one => remoteChoice(one, report, now)) },
    { id: 'machines', choices: machines.map(one => machineChoice(one, report)) },
    { id: 'colab', choices: runtimes.map(one => runtimeChoice(one, report)) },
    { id: 'hosts', choices: hosts.map(one => hostChoice(one)) }
  ];
  const words = text.trim().toLowerCase();
  const fitting = groups
    .map(({ id, choices }) => ({ id, choices: choices.filter(choice => fits(choice, words)) }))
    .filter(({ choices }) => choices.length > 0);
  const source = typedSource(text, project);
  const isThere = fitting.some(({ choices }) => choices.some(({ name }) => name.toLowerCase() === words));
  if (source === null || isThere) return fitting;
  const typed: IChoiceGroup = { id: 'typed', choices: [typedChoice(source, candidates)] };
  // A plain word is primarily a search; an address can only be a target.
  return /[@:.]/.test(words) ? [typed, ...fitting] : [...fitting, typed];
}

/** The typed text as a machine of the listed project; null while it is not a valid target. */
function typedSource(text: string, project: string | null): AddRemote['source'] | null {
  const source = sourceOf(text);
  return source?.kind === 'gcloud' && project !== null ? { project, ...source } : source;
}

/** The key of the choice `step` positions further, across groups; null when there is none. */
export function choiceAfter(
  groups: readonly IChoiceGroup[],
  key: string | null,
  step: 1 | -1
): string | null {
  const keys = groups.flatMap(({ choices }) => choices.map(choice => choice.key));
  const at = key === null ? -1 : keys.indexOf(key);
  const next = at < 0 ? (step > 0 ? 0 : keys.length - 1) : (at + step + keys.length) % keys.length;
  return keys[next] ?? null;
}

/** The choice with this key; the first one when there is none. */
export function choiceAt(groups: readonly IChoiceGroup[], key: string | null): IChoice | null {
  const all = groups.flatMap(({ choices }) => choices);
  return all.find(choice => choice.key === key) ?? all[0] ?? null;
}

function fits({ name, about, state }: IChoice, words: string): boolean {
  return words === '' || [name, about, state].some(part => part.toLowerCase().includes(words));
}

/** Machine types of Google Cloud, Colab and a connected machine, as a check names them. */
const ALIASES: readonly (readonly [RegExp, string])[] = [
  [/^v5lite(pod)?-/, 'v5e-'],
  [/^(tpu|v)7x-/, '7x-'],
  [/^(v\de)(?=\d)/, '$1-']
];

/** A machine with another number of chips than the checked ones is unknown. */
function fitOn(
  report: CheckReport | null,
  type: string | null,
  chip?: string | null,
  chips?: number
): Fit | null {
  if (report === null || (type === null && chip == null)) return null;
  const name = ALIASES.reduce((text, [from, to]) => text.replace(from, to), type ?? '');
  const machine = report.machines.find(
    one => one.name === name || (one.name.startsWith(`${chip}-`) && one.chips === chips)
  );
  return machine === undefined ? 'unknown' : fitOf(report, machine.name);
}

function remoteChoice(remote: Remote, report: CheckReport | null, now: number): IChoice {
  const { name, source, state, roundTripMs, lastConnectedAt, mirror, accelerator } = remote;
  const isStored = state !== 'connected' && mirror.kernels > 0;
  return {
    key: `remote ${name}`,
    icon: 'chip',
    name,
    about: joined([
      acceleratorName(remote),
      source.kind === 'gcloud' ? source.zone : sourceName(source),
      isStored ? trans.__('output kept on this computer') : null
    ]),
    tone: toneOf(state),
    state: stateText(remote, now).label,
    figure:
      state === 'connected'
        ? roundTripMs === null
          ? ''
          : trans.__('%1 ms', Math.max(1, Math.round(roundTripMs)))
        : lastConnectedAt == null
          ? ''
          : agoText(lastConnectedAt, now),
    fit: fitOn(report, accelerator?.type ?? null, accelerator?.chip, accelerator?.chips),
    target: { kind: 'remote', name }
  };
}

type Machine = RemoteCandidates['gcloud']['machines'][number];

function machineChoice(
  { source, acceleratorType, state, spot = false }: Machine,
  report: CheckReport | null
): IChoice {
  const { tone, label } = cloudState(state);
  return {
    key: `machine ${source.product} ${source.zone} ${source.name}`,
    icon: 'cloud',
    name: source.name,
    about: joined([
      acceleratorType === null ? null : spot ? trans.__('%1 spot', acceleratorType) : acceleratorType,
      source.zone
    ]),
    tone,
    state: label,
    figure: '',
    fit: fitOn(report, acceleratorType),
    target: { kind: 'source', source }
  };
}

function runtimeChoice(
  source: Extract<RemoteSource, { kind: 'colab' }>,
  report: CheckReport | null
): IChoice {
  return {
    key: `colab ${source.accelerator}`,
    icon: 'cloud',
    name: trans.__('Colab runtime, TPU %1', source.accelerator),
    about: trans.__('You see the terms and the cost first'),
    tone: null,
    state: trans.__('not created'),
    figure: '',
    fit: fitOn(report, source.accelerator),
    target: { kind: 'source', source }
  };
}

function hostChoice(source: Extract<RemoteSource, { kind: 'ssh' }>): IChoice {
  return {
    key: `host ${source.destination}`,
    icon: 'terminal',
    name: source.destination,
    about: trans.__('from your ssh config'),
    tone: null,
    state: trans.__('not connected'),
    figure: '',
    fit: null,
    target: { kind: 'source', source }
  };
}

function typedChoice(source: AddRemote['source'], candidates: RemoteCandidates | null): IChoice {
  return {
    key: 'typed',
    icon: 'plus',
    name: source.kind === 'gcloud' ? source.name : sourceName(source),
    about:
      source.kind === 'gcloud'
        ? cloudText(source, candidates)
        : source.kind === 'ssh'
          ? trans.__('Over ssh')
          : trans.__('You see the terms and the cost first'),
    tone: null,
    state: '',
    figure: '',
    fit: null,
    target: { kind: 'source', source }
  };
}

function cloudText(
  source: Extract<AddRemote['source'], { kind: 'gcloud' }>,
  candidates: RemoteCandidates | null
): string {
  const names = {
    'tpu-vm': trans.__('TPU VM'),
    'queued-resource': trans.__('Queued resource'),
    instance: trans.__('Compute Engine instance'),
    'instance-group': trans.__('Managed instance group')
  };
  const name = names[source.product];
  const place = 'zone' in source ? trans.__('%1 in %2', name, source.zone) : name;
  const what = source.tunnelThroughIap === true ? trans.__('%1, through IAP', place) : place;
  const where = source.project ?? candidates?.gcloud.project ?? null;
  return where === null ? what : trans.__('%1, project %2', what, where);
}

/** Whether the text is an incomplete Google Cloud machine. */
export function isIncompleteMachine(text: string): boolean {
  return isCloud(text) && sourceOf(text) === null;
}

/** The cloud's state in our words; an unknown state stays unchanged. */
function cloudState(state: string): { tone: Tone; label: string } {
  switch (state) {
    case 'READY':
      return { tone: 'ok', label: trans.__('ready') };
    case 'RUNNING':
      return { tone: 'ok', label: trans.__('running') };
    case 'CREATING':
    case 'PROVISIONING':
    case 'STAGING':
      return { tone: 'busy', label: trans.__('creating…') };
    case 'STARTING':
    case 'RESTARTING':
      return { tone: 'busy', label: trans.__('starting…') };
    case 'STOPPING':
    case 'SUSPENDING':
      return { tone: 'busy', label: trans.__('stopping…') };
    case 'STOPPED':
    case 'TERMINATED':
    case 'SUSPENDED':
      return { tone: 'off', label: trans.__('stopped') };
    case 'PREEMPTED':
      return { tone: 'error', label: trans.__('preempted') };
    default:
      return { tone: 'off', label: state.toLowerCase().replaceAll('_', ' ') };
  }
}

function joined(parts: readonly (string | null)[]): string {
  return parts.filter(part => part !== null && part !== '').join(' · ');
}
