import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Clock } from '@tpulab/platform/clock.js';
import { gatewayForAll } from '../testing/shared-gateway.js';
import { silent } from '../testing/temporary-gateway.js';
import { CULLING_DEFAULTS, type CullingOptions, KernelCulling } from './kernel-culling.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const bridge = gatewayForAll();
let kernelId: string;

beforeEach(async () => {
  kernelId = await bridge.startKernel();
});
afterEach(async () => {
  const { registry } = bridge.gateway;
  await Promise.all(registry.list().map(({ id }) => registry.remove(id)));
});

function culling(options: Partial<CullingOptions>, clock?: Clock): KernelCulling {
  return new KernelCulling(bridge.gateway.registry, { ...CULLING_DEFAULTS, ...options }, silent(), clock);
}

/** Resolves when the kernel has been idle for longer than the timeout of these tests. */
async function untilUnused(): Promise<void> {
  const kernel = bridge.gateway.registry.get(kernelId);
  await vi.waitUntil(
    async () => {
      const snapshot = await kernel.currentSnapshot();
      return snapshot?.executionState === 'idle' && Date.now() - snapshot.lastActivity >= TIMEOUT_S * 1000;
    },
    { timeout: 60_000 }
  );
}

const TIMEOUT_S = 0.2;

function isThere(): boolean {
  return bridge.gateway.registry.find(kernelId) !== undefined;
}

describe('culling', () => {
  it('[21] is off by default', () => {
    expect(CULLING_DEFAULTS.idleTimeoutS).toBe(0);
    vi.useFakeTimers();
    try {
      using off = culling({});
      expect(off).toBeDefined();
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });

  it('[21] ends a kernel that was unused for the configured time', async () => {
    await untilUnused();
    using culled = culling({ idleTimeoutS: TIMEOUT_S });
    await culled.check();
    expect(isThere()).toBe(false);
    expect(await bridge.rest('GET', '/api/kernels')).toMatchObject({ status: 200, body: [] });
  });

  it('[21] checks automatically, at the configured interval', async () => {
    using culled = culling({ idleTimeoutS: TIMEOUT_S, intervalS: 0.05 });
    expect(culled).toBeDefined();
    await vi.waitUntil(() => !isThere(), { timeout: 60_000 });
  });

  it('[21] spares a kernel when the clock was set, or the machine slept, and counts from then on', async () => {
    await untilUnused();
    let [now, elapsed] = [Date.now(), 0];
    using culled = culling({ idleTimeoutS: 3600 }, { now: () => now, elapsed: () => elapsed });
    const passes = async (ms: number, setByMs = 0): Promise<boolean> => {
      now += ms + setByMs;
      elapsed += ms;
      await culled.check();
      return isThere();
    };
    const [hour, day] = [3_600_000, 86_400_000];
    expect(await passes(1_000, day)).toBe(true);
    expect(await passes(hour / 2)).toBe(true);
    // A time server corrects the clock.
    expect(await passes(1_000, -day)).toBe(true);
    expect(await passes(hour / 2)).toBe(true);
    expect(await passes(hour)).toBe(false);
  });

  it('[21] spares a kernel that was used lately', async () => {
    await untilUnused();
    using culled = culling({ idleTimeoutS: 3600 });
    await culled.check();
    expect(isThere()).toBe(true);
  });

  it('[21] never ends a kernel that is busy, though it has sent nothing for long', async () => {
    using client = await bridge.connect(kernelId);
    const id = client.execute('input("wait ")', { allow_stdin: true });
    await client.first(({ header }) => header.msg_type === 'input_request');
    const kernel = bridge.gateway.registry.get(kernelId);
    await vi.waitUntil(
      async () => {
        const snapshot = await kernel.currentSnapshot();
        // The stdin question uses another socket and may arrive before this.
        return snapshot?.executionState === 'busy' && Date.now() - snapshot.lastActivity >= TIMEOUT_S * 1000;
      },
      { timeout: 60_000 }
    );
    using culled = culling({ idleTimeoutS: TIMEOUT_S, connected: true });
    await culled.check();
    expect(isThere()).toBe(true);
    client.send('stdin', 'input_reply', { value: '', status: 'ok' });
    await client.done(id);
  });

  it('[21] ends a kernel with clients only when that is configured', async () => {
    using client = await bridge.connect(kernelId);
    await client.run('pass');
    await untilUnused();
    using gentle = culling({ idleTimeoutS: TIMEOUT_S });
    await gentle.check();
    expect(isThere()).toBe(true);
    using strict = culling({ idleTimeoutS: TIMEOUT_S, connected: true });
    await strict.check();
    expect(isThere()).toBe(false);
    expect((await client.untilClosed()).code).toBe(1000);
  });
});
