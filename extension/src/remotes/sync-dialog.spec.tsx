// @vitest-environment jsdom
import type { SyncPlan } from '@tpulab/protocol';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, it, vi } from 'vitest';
import { PlanView } from './sync-dialog.js';

// jsdom lacks these, and Lab's parts need them at load.
vi.hoisted(() =>
  Object.assign(globalThis, {
    DragEvent: class extends MouseEvent {},
    matchMedia: () => ({ matches: false, addListener: () => undefined, addEventListener: () => undefined })
  })
);

const PLAN: SyncPlan = {
  localFolder: '/srv/work',
  remoteFolder: '/srv/work',
  changes: [
    { path: 'train.py', action: 'send', bytes: 2048, newer: true },
    { path: 'data.npz', action: 'send', bytes: 10 }
  ],
  files: 2,
  newer: 1,
  deletions: 0,
  leftOut: [],
  leftOutCount: 0,
  bytes: 2058
};

function shown(plan: SyncPlan): HTMLElement {
  const host = document.createElement('div');
  host.innerHTML = renderToStaticMarkup(<PlanView plan={plan} name="vm" />);
  return host;
}

it('names newer files that would be overwritten, before anything is copied', () => {
  const plan = shown(PLAN);
  expect(plan.textContent).toContain('1 file that would be overwritten is newer than its copy.');
  const marked = [...plan.querySelectorAll('li')].filter(one =>
    one.textContent.includes('overwrites a newer')
  );
  expect(marked.map(one => one.textContent)).toEqual([expect.stringContaining('train.py')]);
});

it('does not mention newer files where there are none', () => {
  const changes = PLAN.changes.map(({ newer: _newer, ...change }) => change);
  expect(shown({ ...PLAN, changes, newer: 0 }).textContent).not.toContain('newer');
});

it('names the files that are not copied, and why', () => {
  expect(shown(PLAN).textContent).not.toContain('not copied');
  const leftOut = [{ path: 'caf\\xe9.wav', reason: 'cannot be read', failed: true as const }];
  const plan = shown({ ...PLAN, leftOut, leftOutCount: 3 });
  expect(plan.textContent).toContain('3 are not copied');
  expect(plan.textContent).toContain('caf\\xe9.wav cannot be read');
  expect(plan.textContent).toContain('and 2 more');
});
