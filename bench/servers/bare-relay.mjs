// @ts-check
/**
 * The floor for any server in TypeScript with a kernel in one process and its clients in another: a WebSocket in front, a
 * kernel's sockets behind, and nothing in between. The bridge's additional time is its own.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { endChild, startChild } from './child.mjs';
import { startDirectKernel } from './direct-zmq.mjs';
import { openWebSocket } from './websocket-connection.mjs';

const START_DEADLINE_MS = 60_000;

/**
 * @param {import('./server.mjs').Place} place
 * @returns {import('./server.mjs').Server}
 */
export function openBareRelay({ kernel, folder }) {
  /** @type {Map<string, { url: string, children: import('node:child_process').ChildProcess[] }>} */
  const relays = new Map();
  /** @param {string} id */
  const end = async id => {
    const relay = relays.get(id);
    relays.delete(id);
    for (const child of relay?.children ?? []) await endChild(child);
  };
  return {
    name: 'bare relay (two processes)',
    pid: null,
    async startKernel() {
      const id = `r${randomBytes(4).toString('hex')}`;
      const started = await startDirectKernel(kernel, folder, id);
      const path = join(folder, `${id}.sock`);
      const back = program('relay-back.mjs', [join(folder, `${id}.json`), path], folder);
      await firstLine(back);
      const front = program('relay-front.mjs', [path], folder);
      const { url } = /** @type {{ url: string }} */ (JSON.parse(await firstLine(front)));
      relays.set(id, { url, children: [front, back, started.child] });
      return id;
    },
    connect(id) {
      const relay = relays.get(id);
      if (!relay) throw new Error(`There is no kernel ${id}.`);
      return openWebSocket({ url: relay.url, token: '', kernelId: id });
    },
    endKernel: end,
    async close() {
      await Promise.all([...relays.keys()].map(end));
    }
  };
}

/** @param {string} name @param {readonly string[]} args @param {string} folder */
function program(name, args, folder) {
  const file = fileURLToPath(new URL(name, import.meta.url));
  return startChild([process.execPath, file, ...args], {
    env: process.env,
    cwd: folder,
    log: join(folder, `${name}.log`)
  });
}

/** @param {ReturnType<typeof startChild>} child @returns {Promise<string>} */
async function firstLine(child) {
  const lines = createInterface(child.stdout);
  const ended = once(child, 'exit').then(() => Promise.reject(new Error('A part of the relay has ended.')));
  ended.catch(() => undefined);
  const [line] = await Promise.race([
    once(lines, 'line', { signal: AbortSignal.timeout(START_DEADLINE_MS) }),
    ended
  ]);
  return line;
}
