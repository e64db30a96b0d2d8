import { mkdirSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { gatewayForAll } from '../testing/shared-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const bridge = gatewayForAll();

describe('the end of a kernel that cannot be recorded on disk', () => {
  it('still takes effect, and the files that describe its process are removed', async () => {
    const id = await bridge.startKernel();
    using client = await bridge.connect(id);
    await client.run('1');
    const folder = path.join(bridge.folder, 'kernels', id);
    // A file cannot replace a folder, just as none can be written on a full disk.
    mkdirSync(path.join(folder, 'ended.json'));
    expect((await bridge.rest('DELETE', `/api/kernels/${id}`)).status).toBe(204);
    expect((await bridge.rest('GET', `/api/kernels/${id}`)).status).toBe(404);
    expect(readdirSync(folder)).toContain('journal');
    expect(readdirSync(folder)).not.toContain('launch.json');
  });
});
