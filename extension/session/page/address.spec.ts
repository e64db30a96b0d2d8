// @vitest-environment jsdom
import { expect, it } from 'vitest';
import { addressOf, keepToken, readAddress, withToken } from './address.js';

it('keeps the token out of the address of the next notebook', () => {
  // Opening another notebook must not put the token back.
  document.head.innerHTML = '<base href="/session/">';
  history.replaceState(null, '', '/session/a.ipynb?x=1#token=secret');
  expect(readAddress(window)).toMatchObject({ notebook: 'a.ipynb', token: 'secret' });
  expect(location.href).toMatch(/\/session\/a\.ipynb\?x=1$/);
  const next = addressOf(window, 'b c.ipynb');
  // Without storage, the page would ask for the token again.
  expect(withToken(window, next, 'secret')).toBe('/session/b%20c.ipynb#token=secret');
  keepToken(window, 'secret');
  expect(withToken(window, next, 'secret')).toBe('/session/b%20c.ipynb');
});
