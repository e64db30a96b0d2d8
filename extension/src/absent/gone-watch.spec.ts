import type { ISessionContext } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import type { MirroredKernel, Remote } from '@tpulab/protocol';
import { afterEach, expect, test } from 'vitest';
import type { INoticeText } from '../ui/notebook-notice.js';
import type { Remotes } from '../backends/remotes-model.js';
import { until } from '../testing/page.js';
import { remote } from '../testing/remotes.js';
import { GoneWatch } from './gone-watch.js';

const trans = nullTranslator.load('jupyterlab_tpulab');
const KERNEL = { id: 'k', name: 'remote/my-tpu/jax' };

/** A notebook whose kernel is on my-tpu, and what is said above it. */
class Scene {
  shown: INoticeText | null = null;
  remote: Remote | null = remote({ state: 'connected' });
  kept: MirroredKernel[] = [];
  asked = 0;
  readonly started: string[] = [];
  private readonly context = { session: { kernel: KERNEL } };
  private readonly sessionChanged = new Signal<object, object>(this.context);
  private readonly kernelChanged = new Signal<object, object>(this.context);
  private readonly remotesChanged = new Signal<object, string | null>(this.context);
  readonly watch = new GoneWatch({
    sessionContext: {
      ...this.context,
      sessionChanged: this.sessionChanged,
      kernelChanged: this.kernelChanged
    } as unknown as ISessionContext,
    remotes: { get: () => this.remote, changed: this.remotesChanged } as unknown as Remotes,
    notice: { say: text => (this.shown = text), clear: () => (this.shown = null) },
    kept: () => {
      this.asked += 1;
      return Promise.resolve(this.kept);
    },
    trans,
    onStart: name => this.started.push(name),
    onChoose: () => undefined,
    onShow: () => undefined
  });

  /** As Lab says it when the kernel is in no list any more. */
  lose(): void {
    this.sessionChanged.emit({ name: 'session', oldValue: {}, newValue: null });
  }

  tell(state: Remote['state']): void {
    this.remote = remote({ state });
    this.remotesChanged.emit('my-tpu');
  }

  takeAnother(): void {
    this.kernelChanged.emit({ name: 'kernel', oldValue: null, newValue: { id: 'k2', name: 'python3' } });
  }
}

let scene: Scene;
afterEach(() => scene.watch.dispose());

function ended(given: Partial<MirroredKernel> = {}): MirroredKernel {
  const fields = { kernelId: 'k', name: 'jax', lastSeq: 9, bytes: 100, endedAt: null, documents: [] };
  return { ...fields, state: 'ended', wasShutDown: false, ...given };
}

test('a kernel that went with its machine is told of, and a new one is a click away', async () => {
  scene = new Scene();
  scene.kept = [ended()];
  scene.lose();
  await until(() => scene.shown !== null);
  expect(scene.shown?.text).toMatch(/has ended: my-tpu was restarted/);
  scene.shown?.actions[0]?.onClick();
  expect(scene.started).toEqual(['remote/my-tpu/jax']);
});

test('nothing is said of a kernel that somebody has shut down', async () => {
  scene = new Scene();
  scene.kept = [ended({ wasShutDown: true })];
  scene.lose();
  await until(() => scene.asked > 0);
  await new Promise(resolve => setTimeout(resolve, 0));
  expect(scene.shown).toBeNull();
});

test('a machine that is taken back says so at once, and once', () => {
  scene = new Scene();
  scene.tell('reconnecting');
  expect(scene.shown).toBeNull();
  scene.tell('preempted');
  expect(scene.shown?.text).toMatch(/my-tpu was preempted/);
  scene.shown = null;
  scene.tell('preempted');
  expect(scene.shown).toBeNull();
});

test('another kernel ends what was said', () => {
  scene = new Scene();
  scene.tell('preempted');
  expect(scene.shown).not.toBeNull();
  scene.takeAnother();
  expect(scene.shown).toBeNull();
  // It is none of my-tpu's, so what happens there is no concern of the notebook any more.
  scene.tell('preempted');
  expect(scene.shown).toBeNull();
});
