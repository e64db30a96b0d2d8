/** The load of a soak: steady output, clients that come and go, executions, restarts, kernels that are started and ended. */
import { setMaxListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { NumberedClient } from './numbered-client.js';
import type { Scene } from './scene.js';

/** Number of clients that come and go. They return under the same session ids, as pages do. */
const VISITORS = 16;
const VISIT_MS = 2_000;
const RESTART_MS = 20_000;
const SHORT_LIFE_MS = 15_000;

interface SoakCounts {
  visits: number;
  executions: number;
  restarts: number;
  kernels: number;
}

/** Runs until `signal` is aborted; rejects when something does not answer. */
export async function soakLoad(scene: Scene, busyKernel: string, signal: AbortSignal): Promise<SoakCounts> {
  const counts: SoakCounts = { visits: 0, executions: 0, restarts: 0, kernels: 0 };
  const { bridge } = scene;
  // Every visitor adds a listener.
  setMaxListeners(VISITORS + 2, signal);
  const visitors = Array.from({ length: VISITORS }, (_, index) => visit(index));
  await Promise.all([...visitors, restarts(), shortLives()]);
  return counts;

  /** Odd-numbered visitors watch the output, the others execute in the second kernel. */
  async function visit(index: number): Promise<void> {
    const watches = index % 2 === 1;
    using client = new NumberedClient({
      kind: index % 4 < 2 ? 'stock' : 'ours',
      kernelId: watches ? scene.kernelId : busyKernel,
      url: () => bridge.url
    });
    for (let turn = 0; !signal.aborted; turn++) {
      await client.connect();
      counts.visits++;
      if (!watches) {
        client.execute(`print(sum(range(${turn})))`);
        counts.executions++;
      }
      await pause(VISIT_MS * (0.1 + ((index * 7 + turn * 5) % 10) / 10));
      await client.leave();
      await pause(200);
    }
  }

  async function restarts(): Promise<void> {
    while (await pause(RESTART_MS)) {
      const { status, body } = await bridge.rest('POST', `api/kernels/${busyKernel}/restart`);
      if (status !== 200) throw new Error(`a restart failed: ${JSON.stringify(body)}`);
      counts.restarts++;
    }
  }

  async function shortLives(): Promise<void> {
    while (await pause(SHORT_LIFE_MS)) {
      const made = await bridge.rest('POST', 'api/kernels', { name: 'lossless' });
      if (made.status !== 201) throw new Error(`no kernel: ${JSON.stringify(made.body)}`);
      const { id } = made.body as { id: string };
      using client = new NumberedClient({ kind: 'stock', kernelId: id, url: () => bridge.url });
      await client.connect();
      const request = client.execute('1');
      await client.until(() => client.replyStatus.has(request), 'for a reply of a new kernel');
      const { status } = await bridge.rest('DELETE', `api/kernels/${id}`);
      if (status !== 204) throw new Error(`a kernel was not ended: ${status}`);
      counts.kernels++;
    }
  }

  /** False when it was aborted. */
  async function pause(ms: number): Promise<boolean> {
    return delay(ms, true, { signal }).catch(() => false);
  }
}
