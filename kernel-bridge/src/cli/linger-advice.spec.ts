import { expect, it } from 'vitest';
import { lingerAdvice } from './status-command.js';

it('advises to linger where systemd would end what a user leaves behind, and nobody else', () => {
  expect(lingerAdvice(false).join('\n')).toContain('loginctl enable-linger');
  expect(lingerAdvice(true)).toEqual([]);
  expect(lingerAdvice(null)).toEqual([]);
});
