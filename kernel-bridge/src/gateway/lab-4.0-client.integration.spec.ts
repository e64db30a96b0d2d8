/** How the library of JupyterLab 4.0 handles an explicit restart: the oldest client still in use. */
import { KernelManager, type Kernel, ServerConnection } from 'services-of-lab-4.0';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import WebSocket from 'ws';
import { gatewayForAll } from '../testing/shared-gateway.js';
import { TOKEN } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const bridge = gatewayForAll();
let manager: KernelManager;

beforeAll(async () => {
  const serverSettings = ServerConnection.makeSettings({
    baseUrl: bridge.url,
    wsUrl: bridge.url.replace(/^http/, 'ws'),
    token: TOKEN,
    appendToken: true,
    WebSocket: WebSocket as unknown as typeof globalThis.WebSocket
  });
  manager = new KernelManager({ serverSettings });
  await manager.ready;
});

afterAll(async () => {
  manager.dispose();
});

/** Every report of the client about the kernel and its connection, in order. */
function reportsOf(kernel: Kernel.IKernelConnection): string[] {
  const reported: string[] = [];
  kernel.statusChanged.connect((_, status) => reported.push(status));
  kernel.connectionStatusChanged.connect((_, status) => reported.push(status));
  return reported;
}

async function printed(kernel: Kernel.IKernelConnection, code: string): Promise<string> {
  const future = kernel.requestExecute({ code });
  let text = '';
  future.onIOPub = ({ content }) => {
    if ('text' in content) text += content.text;
  };
  const reply = await future.done;
  expect(reply.content.status).toBe('ok');
  return text;
}

it('[17] an explicit restart does not look like a crash, neither to the client that requested it nor to another one', async () => {
  const asking = await manager.startNew({ name: 'python3' });
  const watching = manager.connectTo({ model: asking.model });
  expect(await printed(asking, 'x = 1; print("before")')).toBe('before\n');
  expect(await printed(watching, 'print(x)')).toBe('1\n');
  const reported = [reportsOf(asking), reportsOf(watching)];

  await asking.restart();

  expect(await printed(asking, 'print("x" in globals())')).toBe('False\n');
  expect(await printed(watching, 'print("after")')).toBe('after\n');
  await expect.poll(() => [asking.status, watching.status], { timeout: 60_000 }).toEqual(['idle', 'idle']);
  for (const words of reported) {
    // The client shows `autorestarting` as "the kernel died".
    expect(words.filter(word => /^(autorestarting|dead|terminating|disconnected)$/.test(word))).toEqual([]);
  }
  // A client that only watches keeps its connection and its requests.
  expect(reported[1]).not.toContain('connecting');
  await asking.shutdown();
});
