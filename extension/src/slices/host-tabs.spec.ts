// @vitest-environment jsdom
import { expect, test } from 'vitest';
import { type IOpenHost, showHostTabs } from './host-tabs.js';

const fold = (line: string, text: string): string =>
  `<details><summary>${line}</summary><pre>${text}</pre></details>`;
const TWO = [
  fold('hosts 1, 4-5: different output (1 line), same on 3 hosts', 'one'),
  fold('host 2: different output (2 lines)', 'two')
].join('');

function shown(html: string, open: IOpenHost = { host: null }): HTMLElement {
  const root = document.createElement('div');
  root.innerHTML = html;
  document.body.replaceChildren(root);
  showHostTabs(root, open, 'Output of other hosts');
  return root;
}
const tabs = (root: HTMLElement): HTMLElement[] => [...root.querySelectorAll<HTMLElement>('[role="tab"]')];
const panels = (root: HTMLElement): string[] =>
  [...root.querySelectorAll<HTMLElement>('[role="tabpanel"]')].flatMap(({ hidden, textContent }) =>
    hidden ? [] : [textContent]
  );

test('each output has a tab, folded until it is chosen', () => {
  const root = shown(`<div>▸ host 3: same as host 0</div>${TWO}`);
  expect(root.textContent).toContain('host 3: same as host 0');
  expect(tabs(root).map(({ textContent }) => textContent)).toEqual(['hosts 1, 4-5', 'host 2']);
  expect(panels(root)).toEqual([]);
  tabs(root)[1]?.click();
  expect(panels(root)).toEqual(['different output (2 lines)two']);
  tabs(root)[1]?.click();
  expect(panels(root)).toEqual([]);
});

test('arrow keys, Home and End move between the tabs, and Tab reaches one of them', () => {
  const root = shown(TWO);
  const press = (at: number, key: string): void =>
    void tabs(root)[at]?.dispatchEvent(new KeyboardEvent('keydown', { key, cancelable: true }));
  press(0, 'ArrowLeft');
  expect(document.activeElement).toBe(tabs(root)[1]);
  expect(panels(root)).toEqual(['different output (2 lines)two']);
  expect(tabs(root).map(({ tabIndex }) => tabIndex)).toEqual([-1, 0]);
  press(1, 'Home');
  expect(panels(root)).toEqual(['different output (1 line), same on 3 hostsone']);
  press(0, 'End');
  expect(document.activeElement).toBe(tabs(root)[1]);
});

test('an update leaves the open host open, even when it moves to another group', () => {
  const open: IOpenHost = { host: null };
  tabs(shown(TWO, open))[1]?.click();
  const later = shown(
    [fold('host 1: 1 line so far', 'one'), fold('hosts 2-3: 3 lines so far, same on 2 hosts', 'both')].join(
      ''
    ),
    open
  );
  expect(panels(later)).toEqual(['3 lines so far, same on 2 hostsboth']);
});

test('a single output stays a fold', () => {
  const open: IOpenHost = { host: 1 };
  const root = shown(fold('host 1: different output (1 line)', 'one'), open);
  expect(tabs(root)).toEqual([]);
  expect(root.querySelector('details')?.open).toBe(true);
});
