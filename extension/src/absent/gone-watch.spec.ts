import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import type { MirroredKernel, Remote } from '@tpulab/protocol';
import { afterEach, expect, test } from 'vitest';
import type { INoticeText } from '../ui/notebook-notice.js';
import type { Remotes } from '../backends/remotes-model.js';
import { until } from '../testing/page.js';
import { remote } from '../testing/remotes.js';
import { RunNotebook } from '../testing/run-notebook.js';
import { GoneWatch } from './gone-watch.js';

const SLICE = 'remote/my-tpu/tpulab-slice-my-tpu';

/** A notebook whose kernel is on my-tpu, and what is said above it. */
class Scene {
  shown: INoticeText | null = null;
  remote: Remote | null = remote({ state: 'connected' });
  kept: MirroredKernel[] = [];
  asked = 0;
  readonly started: string[] = [];
  /** What a start does. */
  onStart = (): Promise<void> => {
    this.notebook.takeKernel({ id: 'k2', name: this.kernel });
    return Promise.resolve();
  };
  readonly notebook: RunNotebook;
  readonly watch: GoneWatch;
  private readonly remotesChanged = new Signal<object, string | null>({});

  constructor(private readonly kernel = 'remote/my-tpu/jax') {
    this.notebook = new RunNotebook(['a', 'b', 'c'], { id: 'k', name: kernel });
    this.watch = new GoneWatch({
      ...this.notebook.options,
      remotes: { get: () => this.remote, changed: this.remotesChanged } as unknown as Remotes,
      notice: { say: text => (this.shown = text), clear: () => (this.shown = null) },
      kept: () => {
        this.asked += 1;
        return Promise.resolve(this.kept);
      },
      trans: nullTranslator.load('jupyterlab_tpulab'),
      onStart: name => {
        this.started.push(name);
        return this.onStart();
      },
      onChoose: () => undefined,
      onShow: () => undefined
    });
  }

  tell(state: Remote['state'], given: Partial<Remote> = {}): void {
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
async function comeBack(checks: Remote['checks'] = []): Promise<void> {
  scene.tell('preempted');
  scene.kept = [ended({ state: 'unknown' })];
  scene.tell('connected', { connectedAt: Date.now(), checks });
  scene.notebook.loseKernel();
  await until(() => scene.shown?.text.includes('has been back since') === true);
}

test('a kernel that went with its machine is told of, and a new one is a click away', async () => {
  scene = new Scene();
  scene.kept = [ended()];
  scene.notebook.loseKernel();
  await until(() => scene.shown !== null);
  expect(scene.shown?.text).toMatch(/has ended: my-tpu was restarted or recreated/);
  // Nothing has run that could run again.
  expect(scene.labels).toEqual(['Start the kernel again']);
  scene.click('Start the kernel again');
  expect(scene.started).toEqual(['remote/my-tpu/jax']);
  expect(scene.shown).toBeNull();
});

test('nothing is said of a kernel that somebody has shut down', async () => {
  scene = new Scene();
  scene.kept = [ended({ wasShutDown: true })];
  scene.notebook.loseKernel();
  await until(() => scene.asked > 0);
  await new Promise(resolve => setTimeout(resolve, 0));
  expect(scene.shown).toBeNull();
});

test('a machine that is taken back says so at once, and once', () => {
  scene = new Scene();
  scene.tell('reconnecting');
  expect(scene.shown).toBeNull();
  scene.tell('preempted');
  expect(scene.shown?.text).toMatch(/my-tpu was preempted, and the kernel of this notebook with it/);
  scene.shown = null;
  scene.tell('preempted');
  expect(scene.shown).toBeNull();
});

test('when it is back, that is said, and the same kernel starts there and runs again what had run', async () => {
  scene = new Scene();
  const { notebook } = scene;
  notebook.run('a', 1);
  // It was running when the machine went away.
  notebook.cell('c').executionState = 'running';
  notebook.connectionStatusChanged.emit('connecting');
  await comeBack();
  expect(scene.labels).toEqual(['Restart and rerun', 'Start the kernel again']);
  scene.click('Restart and rerun');
  await until(() => notebook.ran.length > 0);
  expect(scene.started).toEqual(['remote/my-tpu/jax']);
  expect(notebook.ran).toEqual([['a', 'c']]);
  expect(scene.shown).toBeNull();
});

test('where it does not start, it is offered again', async () => {
  scene = new Scene();
  scene.onStart = () => Promise.reject(new Error('no kernel'));
  await comeBack();
  scene.click('Start the kernel again');
  expect(scene.shown).toBeNull();
  await until(() => scene.shown !== null);
  expect(scene.labels).toContain('Start the kernel again');
});

test('a slice whose hosts are not all ready says what is missing, and is offered when they are', async () => {
  scene = new Scene(SLICE);
  const check = { name: 'slice', state: 'warning', message: 'Host 1 is away.', remedy: null } as const;
  await comeBack([check]);
  expect(scene.shown?.text).toMatch(/Its kernel cannot be started yet\. Host 1 is away\.$/);
  expect(scene.labels).toEqual(['Choose a kernel…', 'Show the machine']);
  scene.tell('connected', { connectedAt: Date.now(), checks: [{ ...check, state: 'ok' }] });
  scene.click('Start the kernel again');
  expect(scene.started).toEqual([SLICE]);
});

test('a machine that was only thought to be preempted still has its kernel', async () => {
  scene = new Scene();
  scene.tell('preempted');
  scene.kept = [ended({ state: 'following' })];
  scene.tell('connected');
  await until(() => scene.shown === null);
});

test('another kernel ends what was said', () => {
  scene = new Scene();
  scene.tell('preempted');
  expect(scene.shown).not.toBeNull();
  scene.notebook.takeKernel({ id: 'k2', name: 'python3' });
  expect(scene.shown).toBeNull();
  // It is none of my-tpu's, so what happens there is no concern of the notebook any more.
  scene.tell('preempted');
  expect(scene.shown).toBeNull();
});
