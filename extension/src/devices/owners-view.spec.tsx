// @vitest-environment jsdom
import type { HoldersPage } from '@tpulab/protocol';
import { act } from 'react';
import { beforeEach, describe, expect, it } from 'vitest';
import { reactPlace } from '../testing/react-place.js';
import { machineSample } from '../events/samples.spec-data.js';
import { holdersOf } from './owners.js';
import { OwnersView } from './owners-view.js';
const NO_LOCK: HoldersPage['lock'] = {
  path: '/tmp/libtpu_lockfile',
  state: 'none',
  owner: null,
  pids: []
};

type Holder = HoldersPage['holders'][number];
const process = (fields: Partial<Holder>): Holder => ({
  pid: 41,
  user: 'ada',
  command: 'python3',
  nodes: ['/dev/vfio/0', '/dev/vfio/1'],
  holdsLock: true,
  kernelId: null,
  kernel: null,
  ...fields
});
const kernel = (fields: Partial<NonNullable<Holder['kernel']>> = {}): Partial<Holder> => ({
  kernelId: 'k',
  kernel: {
    id: 'k',
    name: 'tpulab-jax',
    executionState: 'idle',
    idleS: 11_100,
    connections: 0,
    documents: ['a.ipynb'],
    ...fields
  }
});

const page = {
  accelerator: { type: null, workerId: null, processBounds: null, chipsPerProcessBounds: null },
  chips: [0, 1].map(index => ({
    index,
    pciAddress: `0000:0${index}`,
    pciDevice: '0x0063',
    name: 'v5e',
    node: `/dev/vfio/${index}`,
    owners: []
  })),
  specs: [],
  sample: machineSample(1).machine,
  runtime: { uptimeS: null, errors: null, distributions: [] },
  sampleHz: 2
};

describe('who holds the chips', () => {
  const place = reactPlace();
  const done: string[] = [];

  const show = (holders: Holder[], lock: Partial<HoldersPage['lock']> = {}, known: string | null = null) => {
    const reported = { chips: 2, holders, lock: { ...NO_LOCK, ...lock } };
    place.show(
      <OwnersView
        holders={holdersOf(page, reported, () => known)}
        lock={reported.lock}
        onShow={document => done.push(`show ${document}`)}
        onRelease={id => done.push(`release ${id}`)}
        onRemoveLock={() => done.push('remove lock')}
      />
    );
    return place.host.textContent;
  };
  const buttons = (): HTMLButtonElement[] => [...place.host.querySelectorAll('button')];

  beforeEach(() => {
    done.length = 0;
  });

  it('a kernel of this bridge is shown with process, user, notebook and idle time, and can be ended', () => {
    const text = show([process(kernel())], {}, 'a.ipynb');
    expect(text).toContain('a.ipynb holds chips 0–1');
    expect(text).toContain('pid 41');
    expect(text).toContain('user ada · python3 · kernel tpulab-jax · idle for 3 h 5 min');
    for (const button of buttons()) act(() => button.click());
    expect(done).toEqual(['show a.ipynb', 'release k']);
  });

  it('a notebook that the page does not know is named, without an offer to show it', () => {
    expect(show([process(kernel({ executionState: 'busy' }))])).toContain('a.ipynb holds chips 0–1');
    expect(place.host.textContent).toContain('· busy');
    expect(buttons().map(({ textContent }) => textContent)).toEqual(['Release the chips…']);
  });

  it('a process of another user is not ended: its user is named', () => {
    const text = show([process({})]);
    expect(text).toContain('Not a TPULab kernel; it belongs to ada. Ask them to stop it');
    expect(text).toContain('kill 41');
    expect(show([process({ user: null })])).toContain('unknown user');
    expect(show([process({ kernelId: 'far' })])).toContain('Kernel far of another TPULab.');
    expect(buttons()).toEqual([]);
  });

  it('a process that holds only the lock is named with it', () => {
    expect(show([process({ nodes: [] })], { state: 'held', pids: [41] })).toContain(
      'python3 holds the lock of libtpu'
    );
    expect(buttons()).toEqual([]);
  });

  it('a leftover lock can be removed; a lock with an invisible holder stays', () => {
    expect(show([], { state: 'left', owner: 'bob' })).toContain(
      'The lock file /tmp/libtpu_lockfile of bob is a leftover'
    );
    act(() => buttons()[0]?.click());
    expect(done).toEqual(['remove lock']);
    expect(show([], { state: 'unknown' })).toContain(
      'Its owner cannot be seen from here, so it is not removed.'
    );
    expect(buttons()).toEqual([]);
    expect(show([])).toBe('');
  });
});
