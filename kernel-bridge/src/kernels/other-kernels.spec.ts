import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { isStatus } from '../testing/channels-client.js';
import { gatewayForAll } from '../testing/shared-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const MESSAGE_KERNEL = fileURLToPath(new URL('./testing/message_kernel.py', import.meta.url));

const bridge = gatewayForAll();

beforeAll(async () => {
  const specs = path.join(bridge.folder, 'jupyter', 'kernels');
  const stock = JSON.parse(readFileSync(path.join(specs, 'python3', 'kernel.json'), 'utf8')) as {
    argv: [string, ...string[]];
  };
  mkdirSync(path.join(specs, 'message'));
  writeFileSync(
    path.join(specs, 'message', 'kernel.json'),
    JSON.stringify({
      argv: [stock.argv[0], MESSAGE_KERNEL, '-f', '{connection_file}'],
      display_name: 'Interrupted by message',
      language: 'text',
      interrupt_mode: 'message'
    })
  );
});

describe('a kernel that is not our ipykernel', () => {
  it('[17] is interrupted by a message when its kernelspec requires it', async () => {
    const kernelId = await bridge.startKernel({ name: 'message' });
    using client = await bridge.connect(kernelId);
    const id = client.execute('wait');
    await client.until(() => client.printed(id) === 'waiting\n');
    expect((await bridge.rest('POST', `/api/kernels/${kernelId}/interrupt`)).status).toBe(204);
    await client.done(id);
    expect(client.printed(id)).toBe('waiting\ninterrupted\n');
    const again = client.execute('still here');
    await client.done(again);
    expect(client.printed(again)).toBe('still here');
  });

  it('[17] is restarted in place: no client treats it as a crash, and the kernel has a new session', async () => {
    const kernelId = await bridge.startKernel({ name: 'message' });
    using asking = await bridge.connect(kernelId);
    using watching = await bridge.connect(kernelId);
    await Promise.all([asking.run('one'), watching.run('two')]);
    const session = asking.messages[0]?.header.session;
    await bridge.rest('POST', `/api/kernels/${kernelId}/restart`);
    for (const client of [asking, watching]) {
      await client.first(({ header }) => header.session !== session);
      expect(client.messages.filter(message => isStatus(message, 'restarting'))).toEqual([]);
    }
    const id = asking.execute('three');
    await asking.done(id);
    expect(asking.printed(id)).toBe('three');
    expect(asking.answers(id)[0]?.header.session).not.toBe(session);
  });
});
