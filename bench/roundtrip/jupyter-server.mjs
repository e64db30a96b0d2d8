// @ts-check
/** jupyter_server as it is shipped, with the same kernel command. */
import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { openChannels } from './channels-socket.mjs';
import { endChild, startChild, until } from './child.mjs';

/**
 * @param {import('./target.mjs').Kernel} kernel
 * @param {string} folder
 * @param {string} labPython
 * @returns {Promise<import('./target.mjs').OpenTarget>}
 */
export async function openJupyterServer(kernel, folder, labPython) {
  const data = join(folder, 'jupyter');
  const spec = join(data, 'kernels', 'bench');
  await mkdir(spec, { recursive: true });
  const { argv, env } = kernel;
  await writeFile(
    join(spec, 'kernel.json'),
    JSON.stringify({ argv, env, display_name: 'bench', language: 'python' })
  );

  const port = await freePort();
  const token = randomBytes(16).toString('hex');
  const child = startChild(
    [
      labPython,
      '-m',
      'jupyter_server',
      `--ServerApp.port=${port}`,
      '--ServerApp.port_retries=0',
      '--ServerApp.ip=127.0.0.1',
      '--ServerApp.open_browser=False',
      '--ServerApp.allow_root=True',
      `--ServerApp.root_dir=${folder}`,
      // The environment may hold our own server extension, which would start a bridge.
      '--ServerApp.jpserver_extensions={"jupyterlab_tpulab": False}'
    ],
    {
      env: {
        ...process.env,
        JUPYTER_TOKEN: token,
        JUPYTER_PATH: data,
        JUPYTER_DATA_DIR: data,
        JUPYTER_CONFIG_DIR: join(folder, 'config'),
        JUPYTER_RUNTIME_DIR: join(folder, 'runtime')
      },
      cwd: folder,
      log: join(folder, 'jupyter-server.log')
    }
  );
  const url = `http://127.0.0.1:${port}`;
  const headers = { Authorization: `token ${token}`, 'Content-Type': 'application/json' };
  const kernelId = await until(
    'jupyter_server',
    async () => {
      const response = await fetch(`${url}/api/kernels`, {
        method: 'POST',
        headers,
        body: '{"name":"bench"}'
      });
      return response.ok ? /** @type {{ id: string }} */ (await response.json()).id : null;
    },
    child
  );
  const channels = await openChannels({ url, token, kernelId });
  return {
    execute: channels.execute,
    async close() {
      await channels.close();
      await fetch(`${url}/api/kernels/${kernelId}`, { method: 'DELETE', headers });
      await endChild(child);
    }
  };
}

/** @returns {Promise<number>} */
function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => {
        resolve(address !== null && typeof address === 'object' ? address.port : 0);
      });
    });
  });
}
