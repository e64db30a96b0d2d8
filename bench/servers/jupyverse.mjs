// @ts-check
/** jupyverse, without the parts that serve pages. It starts kernels only through sessions. */
import { randomBytes } from 'node:crypto';
import { dirname, join } from 'node:path';
import { endChild, startChild, until } from './child.mjs';
import { freePort } from './free-port.mjs';
import { openWebSocket } from './websocket-connection.mjs';

const START_LIMIT_MS = 60_000;

/**
 * @param {string} python of the environment with the peers
 * @param {import('./server.mjs').Place} place
 * @returns {Promise<import('./server.mjs').Server>}
 */
export async function openJupyverse(python, { folder, jupyterPath }) {
  const port = await freePort();
  const child = startChild(
    [join(dirname(python), 'jupyverse'), '--host', '127.0.0.1', '--port', String(port), '--disable', 'lab'],
    {
      env: {
        ...process.env,
        JUPYTER_PATH: jupyterPath,
        JUPYTER_DATA_DIR: jupyterPath,
        JUPYTER_CONFIG_DIR: join(folder, 'config'),
        JUPYTER_RUNTIME_DIR: join(folder, 'runtime')
      },
      cwd: folder,
      log: join(folder, 'server.log')
    }
  );
  const url = `http://127.0.0.1:${port}`;
  const headers = { 'Content-Type': 'application/json' };
  await until('jupyverse', async () => ((await fetch(`${url}/api/kernelspecs`)).ok ? true : null), child);
  return {
    name: 'jupyverse',
    pid: child.pid ?? null,
    async startKernel(spec = 'bench') {
      const name = `${randomBytes(8).toString('hex')}.ipynb`;
      const response = await fetch(`${url}/api/sessions`, {
        method: 'POST',
        headers,
        // Without a limit, it sometimes never responds.
        signal: AbortSignal.timeout(START_LIMIT_MS),
        body: JSON.stringify({
          kernel: { id: null, name: spec },
          name,
          path: join(folder, name),
          type: 'notebook'
        })
      });
      if (!response.ok) throw new Error(`jupyverse started no kernel: ${await response.text()}`);
      return /** @type {{ kernel: { id: string } }} */ (await response.json()).kernel.id;
    },
    connect: kernelId => openWebSocket({ url, token: '', kernelId }),
    async endKernel(kernelId) {
      await fetch(`${url}/api/kernels/${kernelId}`, { method: 'DELETE' });
    },
    close: () => endChild(child)
  };
}
