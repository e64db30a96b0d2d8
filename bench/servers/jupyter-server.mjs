// @ts-check
/** jupyter_server as shipped and without its limits, and jupyter_kernel_gateway, which is built on it. */
import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { endChild, startChild, until } from './child.mjs';
import { freePort } from './free-port.mjs';
import { openWebSocket } from './websocket-connection.mjs';

/** Frames of 50 MB are part of the measurement; tornado's own limit is 10 MiB. */
const MAX_FRAME_BYTES = 256 * 2 ** 20;

/** Small packets wait for an acknowledgement unless the socket has TCP_NODELAY; the server has no setting for it. */
const NODELAY = `
from jupyter_server.services.kernels.websocket import KernelWebsocketHandler

_open = KernelWebsocketHandler.open


async def open_without_delay(self, kernel_id):
    self.set_nodelay(True)
    await _open(self, kernel_id)


KernelWebsocketHandler.open = open_without_delay
`;

/**
 * @typedef {object} Variant
 * @property {string} name
 * @property {'jupyter_server' | 'kernel_gateway'} program
 * @property {boolean} [limitRate]
 * @property {boolean} [noDelay]
 */

/** @type {Readonly<Record<string, Variant>>} */
export const VARIANTS = {
  'jupyter-server': { name: 'jupyter_server', program: 'jupyter_server' },
  'jupyter-server-unlimited': {
    name: 'jupyter_server, no rate limit',
    program: 'jupyter_server',
    limitRate: false
  },
  'jupyter-server-nodelay': {
    name: 'same, TCP_NODELAY',
    program: 'jupyter_server',
    limitRate: false,
    noDelay: true
  },
  'kernel-gateway': { name: 'jupyter_kernel_gateway', program: 'kernel_gateway' }
};

/**
 * @param {Variant} variant
 * @param {string} python of the environment with the peers
 * @param {import('./server.mjs').Place} place
 * @returns {Promise<import('./server.mjs').Server & { where: { url: string, token: string } }>}
 */
export async function openJupyterServer(variant, python, { folder, jupyterPath }) {
  const config = join(folder, 'config');
  await mkdir(config, { recursive: true });
  await writeFile(join(config, 'jupyter_server_config.py'), settings(variant));
  await writeFile(join(config, 'jupyter_kernel_gateway_config.py'), settings(variant));
  const port = await freePort();
  const token = randomBytes(16).toString('hex');
  const command =
    variant.program === 'jupyter_server'
      ? [
          'jupyter_server',
          `--ServerApp.port=${port}`,
          '--ServerApp.port_retries=0',
          '--ServerApp.ip=127.0.0.1',
          '--ServerApp.open_browser=False',
          '--ServerApp.allow_root=True',
          `--ServerApp.root_dir=${folder}`
        ]
      : ['kernel_gateway', `--KernelGatewayApp.port=${port}`, '--KernelGatewayApp.ip=127.0.0.1'];
  const child = startChild([python, '-m', ...command], {
    env: {
      ...process.env,
      JUPYTER_TOKEN: token,
      KG_AUTH_TOKEN: token,
      JUPYTER_PATH: jupyterPath,
      JUPYTER_DATA_DIR: jupyterPath,
      JUPYTER_CONFIG_DIR: config,
      JUPYTER_RUNTIME_DIR: join(folder, 'runtime')
    },
    cwd: folder,
    log: join(folder, 'server.log')
  });
  const url = `http://127.0.0.1:${port}`;
  const headers = { Authorization: `token ${token}`, 'Content-Type': 'application/json' };
  await until(
    variant.name,
    async () => ((await fetch(`${url}/api/kernelspecs`, { headers })).ok ? true : null),
    child
  );
  return {
    name: variant.name,
    where: { url, token },
    pid: child.pid ?? null,
    async startKernel(spec = 'bench') {
      const body = JSON.stringify({ name: spec });
      const response = await fetch(`${url}/api/kernels`, { method: 'POST', headers, body });
      if (!response.ok) throw new Error(`${variant.name} started no kernel: ${await response.text()}`);
      return /** @type {{ id: string }} */ (await response.json()).id;
    },
    connect: kernelId => openWebSocket({ url, token, kernelId }),
    async endKernel(kernelId) {
      await fetch(`${url}/api/kernels/${kernelId}`, { method: 'DELETE', headers });
    },
    close: () => endChild(child)
  };
}

/** @param {Variant} variant */
function settings({ limitRate = true, noDelay = false }) {
  const unlimited = `c.ZMQChannelsWebsocketConnection.limit_rate = False\n`;
  const frames = `c.ServerApp.tornado_settings = {"websocket_max_message_size": ${MAX_FRAME_BYTES}}\n`;
  return frames + (limitRate ? '' : unlimited) + (noDelay ? NODELAY : '');
}
