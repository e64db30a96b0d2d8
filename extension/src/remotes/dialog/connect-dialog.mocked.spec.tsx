// @vitest-environment jsdom
import { Signal } from '@lumino/signaling';
import type { ConnectRemote, Holder, Remote, RemoteCandidates, RemoteSource } from '@tpulab/protocol';
import { act } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { remote, stage } from '../../testing/remotes.js';
import type { IConnectChoice, RemoteActions } from '../actions.js';
import type { IMachineFacts } from './after-connecting.js';
import { ConnectBody } from './connect-dialog.js';
import type { IConnectPage } from './remote-props.js';
import { trans } from '../../text/trans.js';

// jsdom lacks these, and Lab's parts need them at load.
vi.hoisted(() =>
  Object.assign(globalThis, {
    DragEvent: class extends MouseEvent {},
    matchMedia: () => ({ matches: false, addListener: () => undefined, addEventListener: () => undefined })
  })
);
const facts = vi.hoisted(() => ({ value: null as IMachineFacts | null }));
vi.mock('./after-connecting.js', () => ({ machineFacts: () => Promise.resolve(facts.value) }));
const MACHINE = { kind: 'gcloud', product: 'tpu-vm', name: 'far', zone: 'us-east5-b', project: 'p' } as const;
const PRINT = `SHA256:${'a'.repeat(43)}`;

const found = (fields: Partial<RemoteCandidates['gcloud']> = {}): RemoteCandidates => ({
  sshHosts: ['vm'],
  gcloud: {
    state: 'ok',
    message: null,
    remedy: null,
    project: 'p',
    machines: [{ source: MACHINE, acceleratorType: 'v6e-4', state: 'READY' }],
    ...fields
  }
});

/** The requests to the gateway. */
type Requested =
  | readonly ['add', RemoteSource, IConnectChoice]
  | readonly ['connect' | 'disconnect' | 'answer' | 'project' | 'end', string, unknown?];

describe('the dialog', () => {
  let host: HTMLElement;
  let root: Root;
  let requested: Requested[];
  let opened: (string | null)[];
  let synced: string[];
  let closed: number;
  let all: Remote[];
  /** The remote whose runtime is being ended. */
  let ending: string | null;
  const changed = new Signal<object, string | null>({});

  const show = async (
    known: readonly Remote[] = [],
    name: string | null = null,
    candidates = found(),
    notebook: string | null = null
  ): Promise<void> => {
    all = [...known];
    const remotes = {
      changed,
      get all() {
        return all;
      },
      get: (one: string) => all.find(each => each.name === one) ?? null,
      api: {
        candidates: (project: string | null) => {
          requested.push(['project', project ?? '']);
          return Promise.resolve(project === null ? candidates : found({ project, machines: [] }));
        },
        environments: () => Promise.resolve([]),
        planSync: () => Promise.resolve({ files: 14, bytes: 38 * 2 ** 20 }),
        endHolder: (one: string, pid: number) => {
          requested.push(['end', one, pid]);
          return Promise.resolve();
        },
        log: () => Promise.resolve([])
      }
    };
    const actions = {
      changed: new Signal<object, void>({}),
      problem: null,
      ending,
      remotes,
      connectTo: (source: RemoteSource, choice: IConnectChoice) => {
        requested.push(['add', source, choice]);
        return Promise.resolve(null);
      },
      connect: (one: string, wishes?: ConnectRemote) => {
        requested.push(['connect', one, wishes]);
        return Promise.resolve(true);
      },
      disconnect: (one: string) => {
        requested.push(['disconnect', one]);
        return Promise.resolve(true);
      },
      answer: (one: string, _id: string, value: string | boolean) => {
        requested.push(['answer', one, value]);
        return Promise.resolve(true);
      }
    } as unknown as RemoteActions;
    const page: IConnectPage = {
      notebook: () => Promise.resolve(notebook),
      open: (_remote, path) => {
        opened.push(path);
        return Promise.resolve();
      },
      folder: () => 'work',
      sync: (one, folder) => synced.push(`${one} ${folder}`)
    };
    await act(async () => {
      root.render(<ConnectBody initial={name} onClose={() => (closed += 1)} {...{ actions, page }} />);
      await Promise.resolve();
    });
    requested = requested.filter(([what]) => what !== 'project');
  };
  const field = (label = 'Search, or type a host'): HTMLInputElement => {
    const input =
      host.querySelector<HTMLInputElement>(`input[aria-label="${label}"]`) ??
      [...host.querySelectorAll('label')]
        .find(({ textContent }) => textContent.includes(label))
        ?.querySelector('input');
    if (!input) throw new Error(`no field ${label}`);
    return input;
  };
  const type = (text: string, label?: string): void =>
    act(() => {
      const input = field(label);
      // React is notified of a value only by the setter of the element itself.
      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')!.set!.call(input, text);
      input.dispatchEvent(new Event('input', { bubbles: true }));
    });
  const press = (key: string): Promise<void> =>
    act(async () => {
      document.activeElement?.dispatchEvent(
        new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true })
      );
      await Promise.resolve();
    });
  const button = (name: string): HTMLButtonElement => {
    const one = [...host.querySelectorAll('button')].find(
      each => each.textContent.includes(name) || each.getAttribute('aria-label') === name
    );
    if (!one) throw new Error(`no button ${name}`);
    return one;
  };
  const click = (name: string): Promise<void> =>
    act(async () => {
      button(name).click();
      await Promise.resolve();
    });
  const active = (): string | undefined => host.querySelector('[aria-selected="true"]')?.textContent;
  const choose = (label: string, value: string): void =>
    act(() => {
      const select = [...host.querySelectorAll('label')]
        .find(({ textContent }) => textContent.startsWith(label))!
        .querySelector('select')!;
      select.value = value;
      select.dispatchEvent(new Event('change', { bubbles: true }));
    });

  beforeEach(() => {
    vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);
    // jsdom has no layout, so it has no scrolling.
    Element.prototype.scrollIntoView = () => undefined;
    host = document.body.appendChild(document.createElement('div'));
    root = createRoot(host);
    requested = [];
    opened = [];
    synced = [];
    closed = 0;
    ending = null;
    facts.value = null;
  });
  afterEach(() => {
    act(() => root.unmount());
    host.remove();
    vi.unstubAllGlobals();
  });

  it('begins in its field, from which arrows go through all lists and Enter connects', async () => {
    await show([remote({ name: 'plain' })]);
    expect(document.activeElement).toBe(field());
    expect(active()).toContain('plain');
    await press('ArrowDown');
    expect(active()).toContain('far');
    expect(field().getAttribute('aria-activedescendant')).toBe(
      host.querySelector('[aria-selected="true"]')?.id
    );
    expect(button('Connect to far').disabled).toBe(false);
    await press('ArrowUp');
    await press('ArrowUp');
    expect(active()).toContain('vm');
    await press('Enter');
    const choice = { environment: null, reach: null, install: null };
    expect(requested).toEqual([['add', { kind: 'ssh', destination: 'vm' }, choice]]);
  });

  it('applies the chosen options to a typed target, and Escape clears the field first', async () => {
    await show();
    type('gcloud:queued-resource/us-east5-b/queue-7');
    expect(active()).toContain('Connect to queue-7');
    await click('Options');
    choose('Connect through', 'iap');
    act(() => host.querySelector<HTMLElement>('input[type=checkbox]')!.click());
    await click('Connect to queue-7');
    expect(requested).toEqual([
      [
        'add',
        { kind: 'gcloud', product: 'queued-resource', name: 'queue-7', zone: 'us-east5-b' },
        { environment: null, reach: 'iap', install: false }
      ]
    ]);
    field().focus();
    await press('Escape');
    expect(field().value).toBe('');
  });

  it('lists another project, to which typed machines then belong', async () => {
    await show();
    await click('p');
    type('no project!', 'Google Cloud project');
    expect(button('List').disabled).toBe(true);
    type('other', 'Google Cloud project');
    await click('List');
    expect(requested).toEqual([['project', 'other']]);
    expect(host.textContent).toContain('No TPU VMs in this project.');
    type('gcloud:us-east5-b/near');
    await click('Connect to near');
    expect(requested[1]?.[1]).toMatchObject({ name: 'near', project: 'other' });
  });

  it('changes the route to a known remote, and leaves it unchanged when nothing is chosen', async () => {
    await show([remote({ name: 'cloudy', source: MACHINE, install: false })]);
    await click('Options');
    expect(host.querySelector<HTMLInputElement>('input[type=checkbox]')!.checked).toBe(false);
    choose('Connect through', 'iap');
    await click('Connect to cloudy');
    expect(requested).toEqual([['connect', 'cloudy', { reach: 'iap' }]]);
  });

  it('shows without gcloud how to sign in, and still connects to hosts', async () => {
    const failed = {
      state: 'failed',
      message: 'gcloud is not signed in',
      remedy: 'gcloud auth login'
    } as const;
    await show([], null, found({ ...failed, project: null, machines: [] }));
    expect(host.querySelector('code')?.textContent).toBe('gcloud auth login');
    await click('Check again');
    expect(requested).toEqual([['project', '']]);
    expect(active()).toContain('vm');
  });

  it('shows the stages, the overall progress, and a command from the advice to copy', async () => {
    const checks = [
      {
        name: 'log-out',
        state: 'warning',
        message: 'the system may end your programs when you log out',
        remedy: 'Run "sudo loginctl enable-linger ada" there once.'
      }
    ] as const;
    const stages = [stage('ssh', 'done'), stage('check', 'done')].concat({
      ...stage('environment', 'running', '41 of 76 packages'),
      fraction: 0.5
    });
    await show([remote({ state: 'setting-up', stages, checks: [...checks] })], 'my-tpu');
    expect(host.textContent).toContain('Installing the JAX environment');
    const [overall] = host.querySelectorAll('[role=progressbar]');
    expect(overall?.getAttribute('aria-valuenow')).toBe('81');
    expect(host.querySelector('.jp-TPULabAdvice code')?.textContent).toBe('sudo loginctl enable-linger ada');
    await click('Stop setup');
    expect(requested).toEqual([['disconnect', 'my-tpu']]);
  });

  it('asks about a host key with the focus on Copy: Enter trusts nothing, and another key cannot be trusted', async () => {
    const hostKey = {
      type: 'ED25519',
      fingerprint: PRINT,
      address: '198.51.100.23',
      command: 'ssh-keygen -lf K'
    };
    const prompt = { id: '1', kind: 'confirm', text: 'Continue?', host: 'vm', hostKey } as const;
    await show([remote({ state: 'waiting', prompt })], 'my-tpu');
    expect(document.activeElement?.textContent).toBe('Copy');
    await press('Enter');
    expect(requested).toEqual([]);
    const paste = 'Paste it here to compare';
    type(`256 SHA256:${'b'.repeat(43)} root@vm (ED25519)`, paste);
    expect(button('Trust and connect').disabled).toBe(true);
    expect(host.textContent).toContain('Another key');
    type(`256 ${PRINT} root@vm (ED25519)`, paste);
    expect(host.textContent).toContain('Same key');
    await click('Trust and connect');
    expect(requested).toEqual([['answer', 'my-tpu', true]]);
  });

  it('shows the terms and figures of a paid step, and Enter alone agrees to nothing', async () => {
    const consent = {
      title: trans.__('Create a Colab runtime?'),
      terms: ['Your balance is 0.'],
      figures: [
        { name: 'balance', label: trans.__('Balance'), value: 0, unit: 'compute units' },
        { name: 'hours-left', label: trans.__('Time left'), value: null, unit: 'h' }
      ],
      accept: 'Create runtime',
      source: 'https://example.org/terms'
    };
    const prompt = { id: '1', kind: 'consent', text: 'Create it?', host: 'colab-v5e1', consent } as const;
    await show([remote({ state: 'waiting', prompt })], 'my-tpu');
    expect(host.textContent).toContain('Your balance is 0.');
    const figures = [...host.querySelectorAll('dl div')].map(({ textContent }) => textContent);
    expect(figures).toEqual(['Balance0 compute units', 'Time leftunknown']);
    expect(host.querySelector('a')?.href).toBe('https://example.org/terms');
    expect(document.activeElement?.textContent).toBe("Don't connect");
    await click('Create runtime');
    expect(requested).toEqual([['answer', 'my-tpu', true]]);
  });

  it('lists the TPUs of Colab, or one line on how to get them', async () => {
    const colab = { state: 'ok', message: null, remedy: null, accelerators: ['v5e1' as const] } as const;
    await show([], null, { ...found(), colab: { ...colab, accelerators: [...colab.accelerators] } });
    expect(host.textContent).toContain('Colab runtime, TPU v5e1');
    const login = { state: 'login' as const, message: 'Not logged in.', remedy: 'colab usage' };
    act(() => root.unmount());
    root = createRoot(host);
    await show([], null, { ...found(), colab: { ...login, accelerators: ['v5e1'] } });
    expect(host.textContent).toContain('Not logged in.');
    expect(host.textContent).toContain('colab usage');
    expect(host.textContent).not.toContain('Colab runtime, TPU');
  });

  it('reports that a runtime is being ended, and connects to it only after its end', async () => {
    ending = 'my-tpu';
    await show([remote({ state: 'disconnected' })], 'my-tpu');
    expect(host.querySelector('h2')!.textContent).toBe('Ending the runtime of my-tpu');
    expect(host.querySelector('[role="status"]')!.textContent).toContain('It uses compute units until then.');
    expect(button('Connect').disabled).toBe(true);
    ending = null;
    await show([remote({ state: 'disconnected' })], 'my-tpu');
    expect(host.querySelector('h2')!.textContent).toBe('my-tpu is not connected');
    expect(button('Connect').disabled).toBe(false);
  });

  it('accepts a passphrase with Enter, from its field', async () => {
    const prompt = { id: '1', kind: 'secret', text: "Enter passphrase for key 'k': ", host: 'vm' } as const;
    await show([remote({ state: 'waiting', prompt })], 'my-tpu');
    expect(document.activeElement).toBe(field('Enter passphrase'));
    type('sesame', 'Enter passphrase');
    act(() => host.querySelector('form')!.requestSubmit());
    expect(requested).toEqual([['answer', 'my-tpu', 'sesame']]);
  });

  it('shows the one command that fixes a failure, and Try again in its footer', async () => {
    const error = {
      code: 'remote_auth_refused',
      message: 'ada@1.2.3.4 did not accept the key. Run this once, then try again.',
      command: 'ssh ada@1.2.3.4'
    };
    await show([remote({ state: 'failed', error })], 'my-tpu');
    const alert = host.querySelector('[role=alert]')!;
    expect(alert.querySelector('h3')?.textContent).toBe('ada@1.2.3.4 did not accept the key');
    expect(alert.querySelector('code')?.textContent).toBe('ssh ada@1.2.3.4');
    expect(document.activeElement).toBe(button('Try again'));
    expect(button('Try again').closest('.jp-TPULabDialog-foot')).not.toBeNull();
    await click('Try again');
    expect(requested).toEqual([['connect', 'my-tpu', undefined]]);
    await click('Back to the list');
    expect(field()).toBeDefined();
  });

  it('opens the notebook on the remote, and shows how many files of its folder are missing there', async () => {
    facts.value = { chips: 4, hbm: '4 × 31.25 GiB', holders: [] };
    const accelerator = { type: 'v6e-4', chip: 'v6e', chips: 4 };
    await show(
      [remote({ state: 'connected', accelerator, roundTripMs: 38 })],
      'my-tpu',
      found(),
      'lessons/a.ipynb'
    );
    expect(host.textContent).toContain('Run a.ipynb on my-tpu');
    expect([...host.querySelectorAll('dd')].map(({ textContent }) => textContent)).toEqual([
      'v6e-4, 4 chips free',
      '4 × 31.25 GiB',
      'JAX',
      '38 ms'
    ]);
    expect(host.textContent).toContain('lessons/ has 14 files to copy, 38.0 MiB.');
    expect(document.activeElement).toBe(button('Open notebook on my-tpu'));
    await click('Open notebook on my-tpu');
    expect([opened, closed]).toEqual([['lessons/a.ipynb'], 1]);
    await click('Copy this folder…');
    expect(synced).toEqual(['my-tpu lessons']);
  });

  it('names the holder of the TPU, and shuts down a kernel only after a confirmation', async () => {
    const kernel = { id: 'k', name: 'jax', executionState: 'idle', idleS: 2_520, connections: 0 };
    const holder: Holder = {
      pid: 7,
      user: 'ada',
      command: 'python',
      nodes: [],
      holdsLock: true,
      kernelId: 'k',
      kernel: { ...kernel, documents: ['x/03-profiling.ipynb'] }
    };
    const other: Holder = {
      ...holder,
      pid: 9_377,
      user: 'bob',
      command: 'python train.py',
      kernelId: null,
      kernel: null
    };
    facts.value = { chips: 4, hbm: null, holders: [holder, other] };
    await show([remote({ state: 'connected' })], 'my-tpu');
    expect(host.textContent).toContain('Connected, but the TPU is in use');
    expect([...host.querySelectorAll('li')].map(({ textContent }) => textContent)).toEqual([
      '03-profiling.ipynbYour kernel, idle for 42 minShut down…',
      'python train.pyUser bob, pid 9377. Only bob can stop it.'
    ]);
    await click('Shut down…');
    expect(requested).toEqual([]);
    facts.value = { chips: 4, hbm: null, holders: [] };
    await click('Shut down and lose its variables');
    expect(requested).toEqual([['end', 'my-tpu', 7]]);
    expect(host.textContent).toContain('Connected to my-tpu');
  });
});
