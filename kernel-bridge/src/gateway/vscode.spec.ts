/**
 * VS Code's "Existing Jupyter Server…", in the order of its extension's requests (microsoft/vscode-jupyter 0399b541,
 * `userJupyterServer/jupyterPasswordConnect.ts`; afterwards it is `@jupyterlab/services` in Node).
 */
import { randomUUID } from 'node:crypto';
import { describe, expect, it, vi } from 'vitest';
import { gatewayForAll } from '../testing/shared-gateway.js';
import { TOKEN } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const bridge = gatewayForAll();

describe('[6] an existing Jupyter server in VS Code', () => {
  it('is first probed without a token for a hub and a password, and sets no cookie for either', async () => {
    // 200 for the first would mean JupyterHub and lead to a password prompt; the second leads to one unless there is a
    // token.
    for (const path of ['/hub/api', '/tree?', '/login?']) {
      const answer = await bridge.rest('GET', path, { token: null, headers: { connection: 'keep-alive' } });
      expect([path, answer.status]).toEqual([path, 403]);
      expect(answer.headers.get('set-cookie')).toBeNull();
      expect(answer.headers.get('location')).toBeNull();
    }
  });

  it('lists kernels, kernelspecs and sessions, even with a number appended to each address', async () => {
    for (const list of ['kernels', 'kernelspecs', 'sessions']) {
      const answer = await bridge.rest('GET', `/api/${list}?${Date.now()}`);
      expect([list, answer.status]).toEqual([list, 200]);
    }
  });

  it('has no files, so the session is created for a name without a file; it runs cells and ends', async () => {
    const name = `notebook-jvsc-${randomUUID()}.ipynb`;
    const file = await bridge.rest('PUT', `/api/contents/${name}`, { body: { type: 'notebook' } });
    expect([404, 405]).toContain(file.status);
    const body = { path: name, type: 'notebook', name, kernel: { name: 'python3' } };
    const made = await bridge.rest('POST', '/api/sessions', { body });
    expect(made.status).toBe(201);
    const { id, kernel } = made.body as { id: string; kernel: { id: string } };
    using client = await bridge.connect(kernel.id);
    expect(client.protocol).toBe('v1.kernel.websocket.jupyter.org');
    const request = client.execute("print('from VS Code')");
    await client.done(request);
    expect(client.printed(request)).toBe('from VS Code\n');
    expect((await bridge.rest('POST', `/api/kernels/${kernel.id}/interrupt`)).status).toBe(204);
    expect((await bridge.rest('DELETE', `/api/sessions/${id}`)).status).toBe(204);
    expect((await bridge.rest('GET', `/api/kernels/${kernel.id}`, { token: TOKEN })).status).toBe(404);
  });
});
