import type { CheckReport, RemoteCandidates } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { remote } from '../../testing/remotes.js';
import { choiceAt, choicesFor, type IChoiceGroup, choiceAfter } from './choices.js';
const NOW = 1_800_000_000_000;
const HOUR = 3_600_000;

const machine = (
  name: string,
  state: string,
  spot = false
): RemoteCandidates['gcloud']['machines'][number] => ({
  source: { kind: 'gcloud', product: 'tpu-vm', name, zone: 'us-east5-b', project: 'p' },
  acceleratorType: 'v6e-4',
  state,
  ...(spot && { spot })
});
const candidates: RemoteCandidates = {
  sshHosts: ['lab-tpu', 'ada@vm'],
  gcloud: {
    state: 'ok',
    message: null,
    remedy: null,
    project: 'p',
    machines: [machine('train-v6e', 'READY'), machine('big', 'STOPPED'), machine('new', 'CREATING', true)]
  }
};
const remotes = [
  remote({ state: 'connected', roundTripMs: 21.3, accelerator: { type: null, chip: 'v5e', chips: 8 } }),
  remote({
    name: 'spot-v6e',
    source: { kind: 'gcloud', product: 'tpu-vm', name: 'spot-v6e', zone: 'us-east5-a' },
    state: 'preempted',
    lastConnectedAt: NOW - 2 * HOUR,
    mirror: { kernels: 1, bytes: 1, behindBytes: 0 }
  })
];

const shown = (text = '', project: string | null = null): IChoiceGroup[] =>
  choicesFor({ remotes, candidates, project, report: null }, text, NOW);
const rows = (groups: IChoiceGroup[]): unknown =>
  groups.map(({ id, choices }) => [
    id,
    ...choices.map(({ name, about, tone, state, figure }) => [name, about, tone, state, figure].join('|'))
  ]);

describe('the possible targets', () => {
  it('are listed with their states: machines, VMs of the project, hosts that are not yet connected as a machine', () => {
    expect(rows(shown())).toEqual([
      [
        'recent',
        'my-tpu|v5e-8 · ada@vm|ok|connected|21 ms',
        'spot-v6e|us-east5-a · output kept on this computer|error|preempted|2 h ago'
      ],
      [
        'machines',
        'train-v6e|v6e-4 · us-east5-b|ok|ready|',
        'big|v6e-4 · us-east5-b|off|stopped|',
        'new|v6e-4 spot · us-east5-b|busy|creating…|'
      ],
      ['hosts', 'lab-tpu|from your ssh config||not connected|']
    ]);
  });

  it('are searched by every displayed word, and a plain word may also be a host', () => {
    const names = (text: string): unknown =>
      shown(text).map(({ id, choices }) => [id, ...choices.map(c => c.name)]);
    expect(names('v6e')).toEqual([
      ['recent', 'spot-v6e'],
      ['machines', 'train-v6e', 'big', 'new'],
      ['typed', 'v6e']
    ]);
    expect(names('stopped')).toEqual([
      ['machines', 'big'],
      ['typed', 'stopped']
    ]);
    expect(names('LAB-tpu')).toEqual([['hosts', 'lab-tpu']]);
  });

  it('start with the typed text when it can only be an address', () => {
    expect(rows(shown('me@192.0.2.7'))).toEqual([['typed', 'me@192.0.2.7|Over ssh|||']]);
    expect(rows(shown('gcloud:queued-resource/us-east5-b/queue-7'))).toEqual([
      ['typed', 'queue-7|Queued resource in us-east5-b, project p|||']
    ]);
    expect(rows(shown('gcloud:queue-7'))).toEqual([['typed', 'queue-7|TPU VM, project p|||']]);
    expect(rows(shown('gcloud:queued-resource/'))).toEqual([]);
    expect(rows(shown('-oProxyCommand=x'))).toEqual([]);
  });

  it('that are typed belong to the listed project', () => {
    const [typed] = shown('gcloud:us-east5-b/near', 'other');
    expect(typed?.choices[0]?.target).toEqual({
      kind: 'source',
      source: { kind: 'gcloud', product: 'tpu-vm', name: 'near', zone: 'us-east5-b', project: 'other' }
    });
  });

  it('are navigated with arrows, across the lists and around their ends', () => {
    const groups = shown();
    const keys = groups.flatMap(({ choices }) => choices.map(({ key }) => key));
    expect(new Set(keys).size).toBe(6);
    expect(choiceAfter(groups, keys[1]!, 1)).toBe(keys[2]);
    expect(choiceAfter(groups, keys[5]!, 1)).toBe(keys[0]);
    expect(choiceAfter(groups, keys[0]!, -1)).toBe(keys[5]);
    expect(choiceAfter([], null, 1)).toBeNull();
    expect(choiceAt(groups, 'gone')?.key).toBe(keys[0]);
  });

  it('have the fit of the checked machine with the same chips; another size is unknown, and unknown chips have none', () => {
    const report = {
      machines: [
        { name: 'v5e-8', chips: 8 },
        { name: 'v6e-4', chips: 4 },
        { name: 'v5p-8', chips: 4 },
        { name: '7x-8', chips: 4 },
        { name: 'v5e-1', chips: 1 }
      ],
      programs: [
        {
          results: {
            'v5e-8': { fits: 'no' },
            'v6e-4': { fits: 'tight' },
            'v5p-8': { fits: 'fits' },
            '7x-8': { fits: 'refused' },
            'v5e-1': { fits: 'no' }
          }
        }
      ]
    } as unknown as CheckReport;
    const typed = (name: string, type: string | null, chip: string | null = null, chips = 0) =>
      remote({ name, accelerator: { type, chip, chips } });
    const groups = choicesFor(
      {
        remotes: [
          typed('by-type', 'v5litepod-8'),
          typed('by-chips', null, 'v5p', 4),
          typed('larger', 'v5litepod-16', 'v5e', 16),
          typed('ironwood', 'tpu7x-8'),
          remote({ name: 'new', accelerator: null })
        ],
        candidates: {
          ...candidates,
          colab: { state: 'ok', message: null, remedy: null, accelerators: ['v5e1', 'v6e1'] } as never
        },
        ...{ project: null, report }
      },
      '',
      NOW
    );
    const found = groups.flatMap(({ choices }) => choices.map(({ name, fit }) => `${name}: ${fit}`));
    expect(found).toEqual([
      'by-type: no',
      'by-chips: fits',
      'larger: unknown',
      'ironwood: unknown',
      'new: null',
      'train-v6e: tight',
      'big: tight',
      'new: tight',
      'Colab runtime, TPU v5e1: no',
      'Colab runtime, TPU v6e1: unknown',
      'lab-tpu: null'
    ]);
    expect(shown().flatMap(({ choices }) => choices.filter(({ fit }) => fit !== null))).toEqual([]);
  });
});
