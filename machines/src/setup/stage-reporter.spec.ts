import type { RemoteStage } from '@tpulab/protocol';
import { expect, it } from 'vitest';
import { StageReporter } from './stage-reporter.js';

it('reports the sent and total bytes, and neither once the stage has ended', async () => {
  const reported: RemoteStage[] = [];
  const reporter = new StageReporter(stage => reported.push(stage));
  await reporter.run('node', stage => {
    stage.moved('sending nodejs.whl', 25, 100);
    stage.moved('downloading', 25, null);
    stage.moved('sending nothing', 0, 0);
    return Promise.resolve({ value: null, detail: 'sent from this computer' });
  });
  expect(
    reported.map(({ state, detail, fraction, transfer }) => [state, detail, fraction, transfer])
  ).toEqual([
    ['running', null, null, undefined],
    ['running', 'sending nodejs.whl', 0.25, { bytes: 25, totalBytes: 100, bytesPerS: null }],
    ['running', 'downloading', null, { bytes: 25, totalBytes: null, bytesPerS: null }],
    ['running', 'sending nothing', 1, { bytes: 0, totalBytes: 0, bytesPerS: null }],
    ['done', 'sent from this computer', 1, undefined]
  ]);
});
