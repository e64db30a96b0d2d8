import type { RemoteStage } from '@tpulab/protocol';
import { expect, it } from 'vitest';
import { StageList } from './remote-report.js';

const stage = (name: string, state: RemoteStage['state'], detail: string | null = null): RemoteStage => ({
  name,
  title: name,
  state,
  detail,
  fraction: null
});

it('contains the duration of each stage from its first update to its end, and none for a skipped one', () => {
  let now = 0;
  const stages = new StageList(() => now);
  expect(stages.put(stage('ssh', 'running'))).toBe(true);
  now = 400;
  expect(stages.put(stage('ssh', 'running', 'asking'))).toBe(false);
  now = 900;
  expect(stages.put(stage('ssh', 'done'))).toBe(true);
  stages.put(stage('node', 'skipped'));
  stages.put(stage('bridge', 'running'));
  expect(stages.all).toEqual([
    { ...stage('ssh', 'done'), durationMs: 900 },
    stage('node', 'skipped'),
    stage('bridge', 'running')
  ]);
  now = 1_000;
  stages.clear();
  stages.put(stage('ssh', 'running'));
  now = 1_250;
  stages.put(stage('ssh', 'failed'));
  expect(stages.all).toEqual([{ ...stage('ssh', 'failed'), durationMs: 250 }]);
});
