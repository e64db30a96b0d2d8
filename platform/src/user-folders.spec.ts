import { userInfo } from 'node:os';
import { expect, it } from 'vitest';
import { homeFolder, xdgFolder } from './user-folders.js';

it('follows an absolute variable, and ignores a relative or empty one', () => {
  expect(xdgFolder('XDG_STATE_HOME', { HOME: '/h', XDG_STATE_HOME: '/s' })).toBe('/s');
  for (const relative of ['state', './state', '', undefined])
    expect(xdgFolder('XDG_STATE_HOME', { HOME: '/h', XDG_STATE_HOME: relative })).toBe('/h/.local/state');
});

it('takes the home folder of the account where HOME is relative, empty or unset', () => {
  expect(homeFolder({ HOME: '/h' })).toBe('/h');
  for (const HOME of ['rel', '.', '', undefined]) expect(homeFolder({ HOME })).toBe(userInfo().homedir);
});
