import type { EnvironmentCreation, EnvironmentInfo } from '@tpulab/protocol';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { EnvironmentSetup, offeredEnvironment } from './setup-model.js';

const JAX: EnvironmentInfo = {
  name: 'jax',
  displayName: 'JAX (XLA)',
  state: 'available',
  path: null,
  kernelspec: 'tpulab-jax',
  detail: null,
  diskMiB: 1_024
};
const creation = (state: EnvironmentCreation['state']): EnvironmentCreation => ({
  name: 'jax',
  state,
  stages: [],
  detail: null,
  error: null,
  fraction: null,
  transfer: null
});

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it('begins on request, and is followed only while it runs', async () => {
  const requested: string[] = [];
  const answers: EnvironmentCreation['state'][] = ['idle', 'running', 'running', 'done'];
  const request = <T>(method: string, route: string): Promise<T> => {
    requested.push(`${method} ${route}`);
    return Promise.resolve(creation(answers.shift()!) as T);
  };
  const setup = new EnvironmentSetup({ request }, JAX);
  await vi.runAllTimersAsync();
  expect(setup.status?.state).toBe('idle');
  await setup.start();
  expect(setup.status?.state).toBe('running');
  await vi.runAllTimersAsync();
  expect(setup.status?.state).toBe('done');
  const route = 'bridge/v1/environments/jax/creation';
  expect(requested).toEqual([`GET ${route}`, `POST ${route}`, `GET ${route}`, `GET ${route}`]);
  setup.dispose();
});

it('reports why the gateway cannot be queried, and stops polling when no view is open', async () => {
  let requested = 0;
  const request = (): Promise<never> => {
    requested += 1;
    return Promise.reject(new Error('The bridge cannot be reached.'));
  };
  const setup = new EnvironmentSetup({ request }, JAX);
  await vi.runAllTimersAsync();
  expect(setup.problem).toBe('The bridge cannot be reached.');
  setup.dispose();
  await vi.runAllTimersAsync();
  expect(requested).toBe(1);
});

it('is offered only without a TPULab environment', () => {
  const torch = { ...JAX, name: 'torch-xla' };
  expect(offeredEnvironment([torch, JAX])).toBe(JAX);
  expect(offeredEnvironment([{ ...torch, state: 'ready' }, JAX])).toBeNull();
  expect(offeredEnvironment([{ ...JAX, state: 'broken' }])?.name).toBe('jax');
  expect(offeredEnvironment([])).toBeNull();
});
