// @vitest-environment jsdom
import { ReactWidget } from '@jupyterlab/ui-components';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { FormDialog } from './form-dialog.js';

// What jsdom lacks and Lab's parts ask for when they are loaded.
vi.hoisted(() =>
  Object.assign(globalThis, {
    DragEvent: class extends MouseEvent {},
    matchMedia: () => ({ matches: false, addListener: () => undefined, addEventListener: () => undefined })
  })
);

let idle: (() => void)[];
let dialog: FormDialog;

beforeEach(() => {
  idle = [];
  vi.stubGlobal('requestIdleCallback', (callback: () => void) => idle.push(callback));
  const body = ReactWidget.create(
    <form>
      <input name="host" />
      <input name="folder" />
    </form>
  );
  dialog = new FormDialog('Form', body, 'Close');
});
afterEach(() => {
  dialog.dispose();
  vi.unstubAllGlobals();
});

const focused = (): string | null => document.activeElement?.getAttribute('name') ?? null;

it('begins in the first field as soon as that is drawn, and leaves the focus alone when the page becomes idle', async () => {
  const closed = dialog.launch();
  await vi.waitFor(() => expect(focused()).toBe('host'), { timeout: 20_000 });
  document.querySelector<HTMLElement>('input[name="folder"]')!.focus();
  expect(idle).not.toHaveLength(0);
  for (const callback of idle) callback();
  await dialog.ready;
  await Promise.resolve();
  expect(focused()).toBe('folder');
  dialog.reject();
  expect((await closed).button.accept).toBe(false);
});
