// @vitest-environment jsdom
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import type { Remote, RemoteCandidates, RemoteSource } from '@tpulab/protocol';
import { act } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { remote } from '../testing/remotes.js';
import type { IConnectChoice, RemoteActions } from './actions.js';
import { ChooseView } from './choose-view.js';

const trans = nullTranslator.load('jupyterlab_tpulab');
const MACHINE = { kind: 'gcloud', product: 'tpu-vm', name: 'far', zone: 'us-east5-b', project: 'p' } as const;

type Gcloud = RemoteCandidates['gcloud'];
const gcloud = (fields: Partial<Gcloud> = {}): Gcloud => ({
  state: 'ok',
  message: null,
  remedy: null,
  project: 'p',
  machines: [{ source: MACHINE, acceleratorType: 'v6e-4', state: 'READY' }],
  ...fields
});
const MISSING = gcloud({
  state: 'missing',
  message: 'gcloud is not installed.',
  project: null,
  machines: []
});

describe('the choice of a machine', () => {
  let host: HTMLElement;
  let root: Root;
  /** What was connected to, and how it was to be. */
  let connected: (readonly [RemoteSource | string, unknown])[];

  const show = async (found: Gcloud, known: readonly Remote[] = []): Promise<void> => {
    const actions = {
      changed: new Signal<object, void>({}),
      problem: null,
      remotes: {
        changed: new Signal<object, string | null>({}),
        all: known,
        api: {
          candidates: (project: string | null) =>
            Promise.resolve({
              sshHosts: ['vm'],
              gcloud: project === null ? found : gcloud({ project, machines: [] })
            }),
          environments: () => Promise.resolve([])
        }
      },
      connectTo: (source: RemoteSource, choice: IConnectChoice) => {
        connected.push([source, choice]);
        return Promise.resolve(null);
      },
      connect: (name: string, wishes: unknown) => {
        connected.push([name, wishes]);
        return Promise.resolve(false);
      }
    } as unknown as RemoteActions;
    // Awaited: what ssh and gcloud know is there afterwards.
    await act(async () => {
      root.render(<ChooseView actions={actions} trans={trans} onChosen={() => undefined} />);
      await Promise.resolve();
    });
  };
  const way = (): HTMLSelectElement | undefined =>
    [...host.querySelectorAll('select')].find(({ options }) =>
      [...options].some(({ value }) => value === 'iap')
    );
  const choose = (value: string): void =>
    act(() => {
      const select = way()!;
      select.value = value;
      select.dispatchEvent(new Event('change', { bubbles: true }));
    });
  const type = (text: string, label = 'Host'): void =>
    act(() => {
      const input = [...host.querySelectorAll('label')]
        .find(({ textContent }) => textContent.startsWith(label))!
        .querySelector('input')!;
      // React hears of a value only by the setter of the element itself.
      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')!.set!.call(input, text);
      input.dispatchEvent(new Event('input', { bubbles: true }));
    });
  const button = (name: string): HTMLButtonElement =>
    [...host.querySelectorAll('button')].find(({ textContent }) => textContent.startsWith(name))!;
  const click = (name: string): Promise<void> =>
    act(async () => {
      button(name).click();
      await Promise.resolve();
    });

  beforeEach(() => {
    vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);
    host = document.body.appendChild(document.createElement('div'));
    root = createRoot(host);
    connected = [];
  });

  afterEach(() => {
    act(() => root.unmount());
    host.remove();
    vi.unstubAllGlobals();
  });

  it('has a way to machines of Google Cloud, which holds for listed and for typed ones', async () => {
    await show(gcloud());
    choose('iap');
    await click('far');
    type('gcloud:queued-resource/us-east5-b/q');
    choose('internal');
    await click('Connect');
    const queued = { kind: 'gcloud', product: 'queued-resource', name: 'q', zone: 'us-east5-b' };
    expect(connected).toEqual([
      [MACHINE, { environment: null, reach: 'iap' }],
      [queued, { environment: null, reach: 'internal' }]
    ]);
  });

  it('lists another project, whose machine a typed one is then', async () => {
    await show(gcloud());
    expect(host.textContent).toContain('TPU VMs of project p');
    type('no project!', 'Another project');
    expect(button('List').disabled).toBe(true);
    type('other', 'Another project');
    await click('List');
    expect(host.textContent).toContain('TPU VMs of project other');
    expect(host.textContent).not.toContain('far');
    type('gcloud:us-east5-b/near');
    await click('Connect');
    type('', 'Another project');
    await click('List');
    await click('far');
    const near = { kind: 'gcloud', product: 'tpu-vm', name: 'near', zone: 'us-east5-b', project: 'other' };
    expect(connected.map(([source]) => source)).toEqual([near, MACHINE]);
  });

  it('says how what is not listed is written', async () => {
    await show(gcloud());
    expect(host.textContent).toContain('gcloud:queued-resource/ZONE/NAME or gcloud:instance-group/ZONE/NAME');
  });

  it('asks for no way where there is no Google Cloud, until somebody types a machine of it', async () => {
    await show(MISSING);
    expect(way()).toBeUndefined();
    type('gcloud:us-east5-b/far');
    expect(way()).toBeDefined();
  });

  it('changes the way to a remote that is known, and leaves one of ssh as it is', async () => {
    await show(MISSING, [remote({ name: 'cloudy', source: MACHINE }), remote({ name: 'plain' })]);
    await click('cloudy');
    choose('iap');
    await click('cloudy');
    await click('plain');
    expect(connected).toEqual([
      ['cloudy', undefined],
      ['cloudy', { reach: 'iap' }],
      ['plain', undefined]
    ]);
  });
});
