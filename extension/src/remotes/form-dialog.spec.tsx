// @vitest-environment jsdom
import { ReactWidget } from '@jupyterlab/ui-components';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { FormDialog } from './form-dialog.js';

// jsdom lacks these, and Lab's parts need them at load.
vi.hoisted(() =>
  Object.assign(globalThis, {
    DragEvent: class extends MouseEvent {},
    matchMedia: () => ({ matches: false, addListener: () => undefined, addEventListener: () => undefined })
  })
);

let dialog: FormDialog;
let pressed: string[];
let outside: HTMLButtonElement;
let isClosed: boolean;

const press = (selector: string, key: string): void => {
  document
    .querySelector(selector)!
    .dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
};

beforeEach(async () => {
  vi.stubGlobal('requestIdleCallback', () => 0);
  pressed = [];
  isClosed = false;
  outside = document.body.appendChild(document.createElement('button'));
  const body = ReactWidget.create(
    <div onKeyDown={({ key }) => pressed.push(key)}>
      <h2 id="title" />
      <input name="full" data-tpulab-escape="" />
      <input name="empty" />
    </div>
  );
  dialog = new FormDialog(body, 'title');
  dialog.launch().then(
    () => (isClosed = true),
    // It was disposed while it was open.
    () => undefined
  );
  await vi.waitFor(() => expect(document.querySelector('input')).not.toBeNull(), { timeout: 20_000 });
});
afterEach(() => {
  dialog.dispose();
  outside.remove();
  vi.unstubAllGlobals();
});

it('is named by its title and leaves Enter and arrows to its content', () => {
  expect(dialog.node.getAttribute('aria-labelledby')).toBe('title');
  expect(dialog.node.hasAttribute('aria-label')).toBe(false);
  for (const key of ['Enter', 'ArrowLeft', 'ArrowRight']) press('input', key);
  expect(pressed).toEqual(['Enter', 'ArrowLeft', 'ArrowRight']);
});

it('closes with Escape, but not in a field with text in it', async () => {
  press('input[name="full"]', 'Escape');
  expect(pressed).toEqual(['Escape']);
  expect(dialog.isDisposed).toBe(false);
  press('input[name="empty"]', 'Escape');
  await vi.waitFor(() => expect(isClosed).toBe(true), { timeout: 20_000 });
});

it('keeps the focus: nothing below it can be reached', () => {
  outside.focus();
  expect(document.activeElement?.getAttribute('name')).toBe('full');
});
