import { Signal } from '@lumino/signaling';
import { type CheckReport, fitOf, type NotebookCheck } from '@tpulab/protocol';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Preflight } from './model.js';

const check = (state: NotebookCheck['state']): NotebookCheck => ({
  ...{ state, error: null, startedAt: null, detail: null, fraction: null, last: null, machines: [] },
  compiler: { state: 'ready', diskMiB: null }
});
const saved = new Signal<object, void>({});

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it('sends no request by itself, saves first, and follows a check while it runs', async () => {
  const requested: string[] = [];
  const states: NotebookCheck['state'][] = ['idle', 'running', 'running', 'done'];
  const request = <T>(method: string, route: string, body?: unknown): Promise<T> => {
    requested.push([method, route, ...(body === undefined ? [] : [JSON.stringify(body)])].join(' '));
    return Promise.resolve(check(states.shift()!) as T);
  };
  const save = (): Promise<void> => Promise.resolve(void requested.push('save'));
  const preflight = new Preflight({ api: { request }, path: 'my folder/a#b.ipynb', save, saved });
  await vi.runAllTimersAsync();
  expect(requested).toEqual([]);
  void preflight.refresh();
  await vi.runAllTimersAsync();
  await preflight.check({ chips: 'v5e-8' });
  await vi.runAllTimersAsync();
  expect(preflight.status?.state).toBe('done');
  const route = 'bridge/v1/checks/my%20folder/a%23b.ipynb';
  const all = [`GET ${route}`, 'save', `POST ${route} {"chips":"v5e-8"}`, `GET ${route}`, `GET ${route}`];
  expect(requested).toEqual(all);
  preflight.dispose();
});

it('is not misled by a late answer to a request from before the start', async () => {
  let answerLate: (answer: NotebookCheck) => void = () => undefined;
  const late = new Promise<NotebookCheck>(resolve => (answerLate = resolve));
  const requested: string[] = [];
  const request = <T>(method: string): Promise<T> => {
    requested.push(method);
    return (requested.length === 1 ? late : Promise.resolve(check('running'))) as Promise<T>;
  };
  const save = (): Promise<void> => Promise.resolve();
  const preflight = new Preflight({ api: { request }, path: 'a.ipynb', save, saved });
  void preflight.refresh();
  const started = preflight.check({ chips: 'v5e-8' });
  await Promise.resolve();
  answerLate(check('idle'));
  await started;
  expect(preflight.status?.state).toBe('running');
  preflight.dispose();
});

it('checks nothing when the notebook cannot be saved, and reports why', async () => {
  const requested: string[] = [];
  const request = <T>(method: string): Promise<T> => {
    requested.push(method);
    return Promise.resolve(check('idle') as T);
  };
  const save = (): Promise<void> => Promise.reject(new Error('The disk is full.'));
  const preflight = new Preflight({ api: { request }, path: 'a.ipynb', save, saved });
  await preflight.check({ chips: 'v5e-8' });
  expect(preflight.problem).toBe('The disk is full.');
  expect(requested).toEqual([]);
  preflight.dispose();
});

it('rates a machine by its worst program, and an uncompiled program as unknown', () => {
  const report = (...fits: readonly string[]): CheckReport =>
    ({ programs: fits.map(one => ({ results: { 'v5e-8': { fits: one } } })) }) as unknown as CheckReport;
  expect(fitOf(report('fits', 'fits'), 'v5e-8')).toBe('fits');
  expect(fitOf(report('fits', 'tight'), 'v5e-8')).toBe('tight');
  expect(fitOf(report('tight', 'refused'), 'v5e-8')).toBe('unknown');
  expect(fitOf(report('refused', 'no', 'fits'), 'v5e-8')).toBe('no');
  expect(fitOf(report('fits'), 'v6e-8')).toBe('unknown');
  expect(fitOf(report(), 'v5e-8')).toBe('unknown');
});
