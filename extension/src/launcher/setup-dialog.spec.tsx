// @vitest-environment jsdom
import type { EnvironmentCreation, EnvironmentInfo } from '@tpulab/protocol';
import { act } from 'react';
import { createRoot } from 'react-dom/client';
import { beforeEach, expect, it, vi } from 'vitest';
import { SetupBody } from './setup-dialog.js';
import { EnvironmentSetup } from './setup-model.js';

// jsdom lacks these, and Lab's parts need them at load.
vi.hoisted(() =>
  Object.assign(globalThis, {
    DragEvent: class extends MouseEvent {},
    matchMedia: () => ({ matches: false, addListener: () => undefined, addEventListener: () => undefined })
  })
);

const MIB = 2 ** 20;
const JAX: EnvironmentInfo = {
  name: 'jax',
  displayName: 'JAX (XLA) on this machine',
  state: 'available',
  path: null,
  kernelspec: 'tpulab-jax',
  detail: null,
  diskMiB: 1_200
};
const IDLE: EnvironmentCreation = {
  name: 'jax',
  state: 'idle',
  stages: [],
  detail: null,
  error: null,
  fraction: null,
  transfer: null
};

async function drawn(
  creation: EnvironmentCreation,
  onLessons: (() => Promise<void>) | null = () => Promise.resolve()
): Promise<HTMLElement> {
  const host = document.createElement('div');
  const setup = new EnvironmentSetup({ request: <T,>() => Promise.resolve(creation as T) }, JAX);
  await act(async () => {
    createRoot(host).render(<SetupBody {...{ setup, onLessons }} onClose={() => undefined} />);
    await Promise.resolve();
  });
  setup.dispose();
  return host;
}

beforeEach(() => void vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true));

it('states the requirements before it begins, with the name once', async () => {
  const host = await drawn(IDLE);
  expect(host.querySelector('h2')!.textContent).toBe('Set up JAX on this machine');
  expect(host.textContent).toContain('It takes about 1.2 GiB on disk.');
  expect(host.querySelector('[role="progressbar"]')).toBeNull();
});

it('shows its progress, the downloaded amount, and the rate', async () => {
  const title = 'installing 62 packages';
  const stage = { title, state: 'running', startedAt: 0, endedAt: null } as const;
  const host = await drawn({
    ...IDLE,
    state: 'running',
    stages: [stage],
    detail: 'Downloading jaxlib (81.1 MiB)',
    fraction: 0.3,
    transfer: { bytes: 120 * MIB, totalBytes: 240 * MIB, bytesPerS: 14 * MIB }
  });
  expect(host.querySelector('[role="progressbar"]')!.getAttribute('aria-valuenow')).toBe('30');
  const shown = [...host.querySelectorAll('.jp-TPULabStage-now span')].map(({ textContent }) => textContent);
  expect(shown).toEqual(['Downloading jaxlib (81.1 MiB)', '120 / 240 MiB · 14.0 MiB/s']);
});

it('names the kernel at the end, and offers the examples', async () => {
  const host = await drawn({ ...IDLE, state: 'done', fraction: 1 });
  expect(host.querySelector('[role="status"]')!.textContent).toBe(
    'JAX is ready. Its kernel, "JAX (XLA) on this machine", is in the launcher.'
  );
  const buttons = [...host.querySelectorAll('button')].map(({ textContent }) => textContent);
  expect(buttons).toContain('Open the examples');
});

it('states that the notebook gets its kernel if the dialog was opened from a notebook', async () => {
  const host = await drawn({ ...IDLE, state: 'done' }, null);
  expect(host.textContent).toContain('JAX is ready. The notebook gets its kernel when you close this.');
  expect(host.textContent).not.toContain('examples');
});
