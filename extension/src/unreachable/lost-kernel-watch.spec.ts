import { Signal } from '@lumino/signaling';
import type { MirroredKernel, Remote } from '@tpulab/protocol';
import { afterEach, expect, test } from 'vitest';
import type { INoticeText } from '../ui/notebook-notice.js';
import type { Remotes } from '../backends/remotes-model.js';
import { until } from '../testing/page.js';
import { remote } from '../testing/remotes.js';
import { RunNotebook } from '../testing/run-notebook.js';
import { LostKernelWatch } from './lost-kernel-watch.js';

const SLICE = 'remote/my-tpu/tpulab-slice-my-tpu';

/** A notebook whose kernel is on my-tpu, and the notices above it. */
class Scene {
  shown: INoticeText | null = null;
  remote: Remote | null = remote({ state: 'connected' });
  mirrored: MirroredKernel[] = [];
  requests = 0;
  readonly started: string[] = [];
  /** The effect of a start. */
  onStart = (): Promise<void> => {
    this.notebook.useKernel({ id: 'k2', name: this.kernel });
    return Promise.resolve();
  };
  readonly notebook: RunNotebook;
  readonly watch: LostKernelWatch;
  private readonly remotesChanged = new Signal<object, string | null>({});

  constructor(private readonly kernel = 'remote/my-tpu/jax') {
    this.notebook = new RunNotebook(['a', 'b', 'c'], { id: 'k', name: kernel });
    this.watch = new LostKernelWatch({
      ...this.notebook.options,
      remotes: { get: () => this.remote, changed: this.remotesChanged } as unknown as Remotes,
      notice: { show: text => (this.shown = text), clear: () => (this.shown = null) },
      mirrored: () => {
        this.requests += 1;
        return Promise.resolve(this.mirrored);
      },
      onStart: name => {
        this.started.push(name);
        return this.onStart();
      },
      onChoose: () => undefined,
      onShow: () => undefined
    });
  }

  report(state: Remote['state'], given: Partial<Remote> = {}): void {
    this.remote = remote({ state, ...given });
    this.remotesChanged.emit('my-tpu');
  }

  get labels(): string[] {
    return this.shown?.actions.map(({ label }) => label) ?? [];
  }

  click(label: string): void {
    this.shown?.actions.find(each => each.label === label)?.onClick();
  }
}

let scene: Scene;
afterEach(() => scene.watch.dispose());

function ended(given: Partial<MirroredKernel> = {}): MirroredKernel {
  const fields = { kernelId: 'k', name: 'jax', lastSeq: 9, bytes: 100, endedAt: null, documents: [] };
  return { ...fields, state: 'ended', wasShutDown: false, ...given };
}

/** Preempted, and created again with a new disk. */
async function recreateMachine(checks: Remote['checks'] = []): Promise<void> {
  scene.report('preempted');
  scene.mirrored = [ended({ state: 'unknown' })];
  scene.report('connected', { connectedAt: Date.now(), checks });
  scene.notebook.loseKernel();
  await until(() => scene.shown?.text.includes('has been back since') === true);
}

test('a kernel lost with its machine is reported, and a new one is a click away', async () => {
  scene = new Scene();
  scene.mirrored = [ended()];
  scene.notebook.loseKernel();
  await until(() => scene.shown !== null);
  expect(scene.shown?.text).toMatch(/has ended: my-tpu was restarted or recreated/);
  // No cell has run that could run again.
  expect(scene.labels).toEqual(['Start the kernel again']);
  scene.click('Start the kernel again');
  expect(scene.started).toEqual(['remote/my-tpu/jax']);
  expect(scene.shown).toBeNull();
});

test('a kernel that the user has shut down is not reported', async () => {
  scene = new Scene();
  scene.mirrored = [ended({ wasShutDown: true })];
  scene.notebook.loseKernel();
  await until(() => scene.requests > 0);
  await new Promise(resolve => setTimeout(resolve, 0));
  expect(scene.shown).toBeNull();
});

test('a preempted machine is reported immediately, and once', () => {
  scene = new Scene();
  scene.report('reconnecting');
  expect(scene.shown).toBeNull();
  scene.report('preempted');
  expect(scene.shown?.text).toMatch(/my-tpu was preempted, and the kernel of this notebook with it/);
  scene.shown = null;
  scene.report('preempted');
  expect(scene.shown).toBeNull();
});

test('its return is reported; the same kernel then starts on it and reruns the cells that had run', async () => {
  scene = new Scene();
  const { notebook } = scene;
  notebook.run('a', 1);
  // It was running when the machine was lost.
  notebook.cell('c').executionState = 'running';
  notebook.connectionStatusChanged.emit('connecting');
  await recreateMachine();
  expect(scene.labels).toEqual(['Restart and rerun', 'Start the kernel again']);
  scene.click('Restart and rerun');
  await until(() => notebook.ran.length > 0);
  expect(scene.started).toEqual(['remote/my-tpu/jax']);
  expect(notebook.ran).toEqual([['a', 'c']]);
  expect(scene.shown).toBeNull();
});

test('a kernel that does not start is offered again', async () => {
  scene = new Scene();
  scene.onStart = () => Promise.reject(new Error('no kernel'));
  await recreateMachine();
  scene.click('Start the kernel again');
  expect(scene.shown).toBeNull();
  await until(() => scene.shown !== null);
  expect(scene.labels).toContain('Start the kernel again');
});

test('a slice whose hosts are not all ready is reported with the missing hosts, and is offered when they are', async () => {
  scene = new Scene(SLICE);
  const check = { name: 'slice', state: 'warning', message: 'Host 1 is away.', remedy: null } as const;
  await recreateMachine([check]);
  expect(scene.shown?.text).toMatch(/Its kernel cannot be started yet\. Host 1 is away\.$/);
  expect(scene.labels).toEqual(['Choose a kernel…', 'Show the machine']);
  scene.report('connected', { connectedAt: Date.now(), checks: [{ ...check, state: 'ok' }] });
  scene.click('Start the kernel again');
  expect(scene.started).toEqual([SLICE]);
});

test('a machine that was only thought to be preempted still has its kernel', async () => {
  scene = new Scene();
  scene.report('preempted');
  scene.mirrored = [ended({ state: 'following' })];
  scene.report('connected');
  await until(() => scene.shown === null);
});

test('another kernel removes the notice', () => {
  scene = new Scene();
  scene.report('preempted');
  expect(scene.shown).not.toBeNull();
  scene.notebook.useKernel({ id: 'k2', name: 'python3' });
  expect(scene.shown).toBeNull();
  // The kernel is not on my-tpu, so events there no longer concern the notebook.
  scene.report('preempted');
  expect(scene.shown).toBeNull();
});
