import type { RemoteStage } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { remote } from '../../testing/remotes.js';
import { type IProgress, progressOf } from './stage-rows.js';
import { trans } from '../../text/trans.js';
const SOURCE = { kind: 'gcloud', product: 'tpu-vm', name: 'far', zone: 'z' } as const;

const stage = (name: string, state: RemoteStage['state'], more: Partial<RemoteStage> = {}): RemoteStage => ({
  name,
  title: name,
  state,
  detail: null,
  fraction: null,
  ...more
});
const rows = ({ rows: all }: IProgress): string[] =>
  all.map(({ title, state, detail }) => [title, state, detail].join('|'));

describe('the stages of connecting', () => {
  it('list coming stages below completed ones, with the duration of each', () => {
    const stages = [stage('gcloud', 'done', { durationMs: 1_400 }), stage('ssh', 'running')];
    const progress = progressOf(remote({ source: SOURCE, stages }));
    expect(rows(progress)).toEqual([
      'Find the VM|done|1.40 s',
      'Connect with ssh|running|',
      'Check the machine|to-come|',
      'Install what is missing|to-come|',
      'Start the TPULab server|to-come|'
    ]);
    expect(progress).toMatchObject({ doing: 'Connecting with ssh', step: 2, fraction: 1 / 5 });
  });

  it('of the installation are listed separately once something is missing, without the present parts', () => {
    const stages = [
      stage('ssh', 'done'),
      stage('check', 'done', { detail: 'all well', durationMs: 600 }),
      stage('node', 'skipped'),
      stage('bridge', 'done', { detail: '0.1.0', durationMs: 400 }),
      stage('uv', 'skipped'),
      stage('python', 'done'),
      stage('environment', 'running', { detail: '41 of 76 packages', fraction: 0.5 })
    ];
    const progress = progressOf(remote({ stages }));
    expect(rows(progress)).toEqual([
      'Connect with ssh|done|',
      'Check the machine|done|all well · 600 ms',
      'TPULab server|done|0.1.0 · 400 ms',
      'Python|done|',
      'JAX environment|running|41 of 76 packages',
      'Start the TPULab server|to-come|'
    ]);
    expect(progress).toMatchObject({ doing: 'Installing the JAX environment', step: 5 });
    expect(progress.fraction).toBeCloseTo(4.5 / 6);
  });

  it('of the other hosts of a slice are one row each, below the stages of the first host', () => {
    const stages = [
      stage('ssh', 'done'),
      stage('host-1', 'running', { detail: 'Python' }),
      stage('host-2', 'failed', { detail: 'refused' }),
      stage('check', 'running')
    ];
    expect(rows(progressOf(remote({ stages })))).toEqual([
      'Connect with ssh|done|',
      'Check the machine|running|',
      'Install what is missing|to-come|',
      'Start the TPULab server|to-come|',
      'host-1|running|Python',
      'host-2|failed|failed'
    ]);
  });

  it('are few if nothing is missing, or nothing may be installed', () => {
    const there = ['node', 'bridge', 'uv', 'python', 'environment', 'gateway'].map(name =>
      stage(name, 'skipped')
    );
    expect(rows(progressOf(remote({ stages: [stage('ssh', 'done'), ...there] }))).slice(-2)).toEqual([
      'Install what is missing|skipped|already installed',
      'Start the TPULab server|skipped|already installed'
    ]);
    const bare = progressOf(remote({ install: false, stages: [stage('ssh', 'failed')] }));
    expect(rows(bare)).toEqual([
      'Connect with ssh|failed|failed',
      'Check the machine|to-come|',
      'Start the TPULab server|to-come|'
    ]);
  });

  it('unknown to this page have the titles from the gateway', () => {
    const stages = [stage('colab', 'running', { title: trans.__('Assign a Colab runtime') })];
    expect(progressOf(remote({ stages }))).toMatchObject({ doing: 'Assign a Colab runtime' });
  });

  it('show the progress of a download while it runs, separate from the activity', () => {
    const transfer = { bytes: 312 * 2 ** 20, totalBytes: 660 * 2 ** 20, bytesPerS: 42 * 2 ** 20 };
    const environment = (state: RemoteStage['state']): RemoteStage =>
      stage('environment', state, { detail: 'Downloading libtpu (312 MiB)', transfer });
    const amount = (state: RemoteStage['state']): string =>
      progressOf(remote({ source: SOURCE, stages: [stage('ssh', 'done'), environment(state)] })).rows.find(
        ({ name }) => name === 'environment'
      )!.amount;
    expect(amount('running')).toBe('312 / 660 MiB · 42.0 MiB/s');
    expect(amount('done')).toBe('');
  });

  it('list earlier stages above ssh: a runtime of Colab is created first', () => {
    const titles = (...names: string[]): string[] =>
      progressOf(
        remote({
          source: { kind: 'colab', accelerator: 'v5e1' },
          stages: names.map(name => stage(name, 'done'))
        })
      ).rows.map(({ title }) => title);
    expect(titles('colab', 'colab-account').slice(0, 3)).toEqual([
      'colab',
      'colab-account',
      'Connect with ssh'
    ]);
    expect(titles('colab', 'colab-runtime', 'ssh', 'late', 'check').slice(0, 5)).toEqual([
      'colab',
      'colab-runtime',
      'Connect with ssh',
      'Check the machine',
      'late'
    ]);
  });
});
