import { expect, it } from 'vitest';
import { checkSocketPath } from './prepare-machine.js';

// OpenSSH expands these on this machine before it sends them.
it.each([
  '/tmp/x-${HF_TOKEN}',
  '/t-${TPULAB_TOKEN}-${HOME}',
  '/tmp/$HOME',
  '/tmp/%h',
  '/home/%u/s',
  '/%d',
  '~/s',
  '/tmp/~x',
  '/tmp/a:b',
  '/tmp/a b',
  '/tmp/\\x',
  '/tmp/\n-o',
  "/tmp/'",
  '-oProxyCommand=x',
  'relative',
  '',
  '/',
  '/tmp/ü',
  `/${'n'.repeat(200)}`
])('a gateway socket %j is refused, and no attempt follows', socketPath => {
  try {
    checkSocketPath(socketPath, 'vm');
    expect.unreachable();
  } catch (error) {
    expect(error).toMatchObject({ code: 'remote_forward_failed', recovery: 'person' });
    expect((error as Error).message).toMatch(
      /^vm reported the server socket "[^\n]{0,125}", which is refused/
    );
  }
});

it('accepts our own paths', () => {
  for (const name of [
    '/srv/ana/.tpulab/state/run/gateway.sock',
    '/tmp/tpulab-0-1a2b/gateway.sock',
    '/h/a@b.c/+s_1'
  ])
    expect(() => checkSocketPath(name, 'vm')).not.toThrow();
});
