import { expect, test, vi } from 'vitest';
import { FakeJupyterServer } from '../testing/fake-jupyter-server.js';
import { Page, until } from '../testing/page.js';

// No timed retries: only requested attempts are made.
vi.mock('../platform/backoff.js', () => ({ retryDelayMs: () => 3_600_000 }));

test('an attempt requested during another one is made after that one has failed', async () => {
  const jupyter = await FakeJupyterServer.start({ specs: ['python3'] });
  const bridge = await FakeJupyterServer.start({ specs: ['tpulab-jax'] });
  jupyter.bridgeAddress = { status: 'ready', url: bridge.url, token: bridge.token, message: null };
  let isFirst = true;
  await using page: Page = new Page(jupyter, bridge, {
    longestRetryMs: 3_600_000,
    fetch: (input, init) => {
      if (isFirst) {
        isFirst = false;
        page.backends.bridge.reconnectNow();
        return Promise.reject(new TypeError('refused'));
      }
      return fetch(input, init);
    }
  });
  page.backends.bridge.start();
  await until(() => page.backends.bridge.state === 'ok');
  expect(isFirst).toBe(false);
});
