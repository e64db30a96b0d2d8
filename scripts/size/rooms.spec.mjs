// @ts-check
import { describe, expect, it } from 'vitest';
import { roomOf, sizesOf, tableOf } from './rooms.mjs';

describe('the size of the project', () => {
  it.each([
    ['kernel-bridge/src/journal/segment.ts', 'kernel-bridge/journal', false],
    ['kernel-bridge/src/journal/segment.spec.ts', 'kernel-bridge/journal', true],
    ['kernel-bridge/src/remotes/testing/hub.ts', 'kernel-bridge/remotes', true],
    ['kernel-bridge/src/index.ts', 'kernel-bridge', false],
    ['machines/host/start.sh', 'machines/host', false],
    ['platform/src/paths.ts', 'platform', false],
    ['extension/jupyterlab_tpulab/test_supervisor.py', 'extension/jupyterlab_tpulab', true],
    ['extension/src/steps/view.tsx', 'extension/steps', false],
    ['extension/session/shell/app.tsx', 'extension/session', false],
    ['style/parts.css', 'style', false],
    ['kernel-agent/tests/test_run.py', 'kernel-agent', true],
    ['recipes/src/tpulab_recipes/audio/mel.py', 'recipes/audio', false],
    ['recipes/tests/audio/test_mel.py', 'recipes/audio', true]
  ])('counts %s to %s', (file, room, isTest) => {
    expect(roomOf(file)).toEqual({ room, isTest });
  });

  it.each(['README.md', 'kernel-bridge/package.json', 'scripts/test.mjs'])(
    'skips %s, which is not code of a package',
    file => {
      expect(roomOf(file)).toBeNull();
    }
  );

  it('is a table with sums, and with added and removed rooms', () => {
    const before = sizesOf([
      ['kernel-bridge/src/journal/a.ts', 100],
      ['kernel-bridge/src/gone/b.ts', 30]
    ]);
    const now = sizesOf([
      ['kernel-bridge/src/journal/a.ts', 80],
      ['kernel-bridge/src/journal/a.spec.ts', 50],
      ['kernel-bridge/src/main.ts', 5]
    ]);
    expect(tableOf(now, before).map(line => line.trim().split(/\s+/).join(' '))).toEqual([
      'code files since tests files since',
      '',
      'kernel-bridge 85 2 -45 50 1 +50',
      '. 5 1 +5 0 0',
      'gone 0 0 -30 0 0',
      'journal 80 1 -20 50 1 +50',
      '',
      'all 85 2 -45 50 1 +50'
    ]);
  });
});
