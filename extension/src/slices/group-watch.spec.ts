import { expect, test } from 'vitest';
import { RunNotebook } from '../testing/run-notebook.js';
import type { INoticeText } from '../ui/notebook-notice.js';
import { GroupWatch } from './group-watch.js';

const LOST = { output_type: 'error', ename: 'HostLostError', evalue: 'Host 1 is lost: it died. Restart.' };

/** A notebook on a slice, and the notices above it. */
class Scene {
  shown: INoticeText | null = null;
  readonly notebook: RunNotebook;
  readonly watch: GroupWatch;

  constructor(kernel = 'tpulab-slice-try') {
    this.notebook = new RunNotebook(['a', 'b', 'c'], { id: 'k', name: kernel });
    this.watch = new GroupWatch({
      ...this.notebook.options,
      notice: { show: text => (this.shown = text), clear: () => (this.shown = null) }
    });
  }
}

test('offers to restart and to run the failed cell again, after those above it that had run', async () => {
  const scene = new Scene();
  const { notebook, watch } = scene;
  notebook.run('a', 1);
  notebook.run('c', 2, LOST);
  expect(scene.shown?.text).toMatch(/^Host 1 is lost: it died\. All hosts were ended\./);
  scene.shown?.actions[0]?.onClick();
  await Promise.resolve();
  await Promise.resolve();
  expect(notebook.ran).toEqual([['a', 'c']]);
  expect([notebook.restarts, scene.shown, watch.lost]).toEqual([1, null, null]);
  watch.dispose();
});

test('a cell that ran before the page was opened is offered too, and once', () => {
  const scene = new Scene();
  const { notebook, watch } = scene;
  notebook.cell('b').executionState = 'running';
  notebook.show('b', LOST);
  notebook.statusChanged.emit('idle');
  expect(scene.shown).not.toBeNull();
  // The user has closed it.
  scene.shown = null;
  notebook.cell('b').executionState = 'idle';
  notebook.cell('b').executionCount = 2;
  notebook.statusChanged.emit('idle');
  expect(scene.shown).toBeNull();
  watch.dispose();
});

test('an error from before a restart is not offered again, and a new loss is', () => {
  const scene = new Scene();
  const { notebook, watch } = scene;
  notebook.run('b', 2, LOST);
  void watch.runAgain();
  notebook.statusChanged.emit('idle');
  expect(scene.shown).toBeNull();
  notebook.run('b', 2, LOST);
  expect(scene.shown).not.toBeNull();
  // Only cells that ran since the restart.
  void watch.runAgain();
  expect(notebook.restarts).toBe(2);
  watch.dispose();
});

test('while a host is still unreachable, the pending cells stay pending', async () => {
  const { notebook, watch } = new Scene();
  notebook.run('a', 1);
  notebook.run('c', 2, LOST);
  await watch.runAgain();
  notebook.run('a', 1, { ...LOST, ename: 'SliceStartError' });
  await watch.runAgain();
  expect(notebook.ran).toEqual([
    ['a', 'c'],
    ['a', 'c']
  ]);
  watch.dispose();
});

test('does nothing for other kernels', () => {
  const scene = new Scene('python3');
  scene.notebook.run('a', 1, LOST);
  expect(scene.shown).toBeNull();
  scene.watch.dispose();
});
