import { expect, it } from 'vitest';
import { lingerAdvice } from './status-command.js';

it('advises lingering only where systemd would end the remaining processes of a user', () => {
  expect(lingerAdvice(false).join('\n')).toContain('loginctl enable-linger');
  expect(lingerAdvice(true)).toEqual([]);
  expect(lingerAdvice(null)).toEqual([]);
});
