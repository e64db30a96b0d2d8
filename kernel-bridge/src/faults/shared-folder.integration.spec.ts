/** One state folder, several machines or containers: none touches data of another, whether that one is running or silent. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { freePort } from '../testing/free-port.js';
import { writeKernelSpecs } from '../testing/kernelspecs.js';
import { TOKEN } from '../testing/temporary-gateway.js';
import { AGENT_SOURCES, bridgeBuild } from './testing/bridge-build.js';
import { NumberedClient } from './testing/numbered-client.js';

vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 });

const run = promisify(execFile);
const isPossible =
  process.platform === 'linux' &&
  process.getuid?.() === 0 &&
  (await run('unshare', ['--mount', '--uts', '--pid', '--fork', '--mount-proc', 'true']).then(
    () => true,
    () => false
  ));

let folder: string;
let state: string;
let children: ChildProcess[];

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tps-'));
  state = path.join(folder, 's');
  children = [];
});

afterEach(async () => {
  for (const child of children) await killed(child);
  await rm(folder, { recursive: true, force: true });
});

/** All processes of a container end with its first process. */
async function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

/**
 * The features that distinguish another machine from this one. From there, the folder's sockets are names without a
 * listener.
 */
async function otherMachine(): Promise<string> {
  const place = await mkdtemp(path.join(folder, 'machine-'));
  const file = async (name: string, content: string): Promise<string> => {
    await writeFile(path.join(place, name), content);
    return path.join(place, name);
  };
  const id = await file('id', `${'ab'.repeat(16)}\n`);
  const boot = await file('boot', '11111111-2222-3333-4444-555555555555\n');
  await run('cp', ['-a', path.join(state, 'run'), place]);
  return [
    'hostname other-machine',
    `{ [ ! -e /etc/machine-id ] || mount --bind ${id} /etc/machine-id; }`,
    `mount --bind ${boot} /proc/sys/kernel/random/boot_id`,
    `mount --bind ${path.join(place, 'run')} ${path.join(state, 'run')}`,
    ''
  ].join(' && ');
}

const quota = (bytes: string) => ({ TPULAB_JOURNAL_KERNEL_BYTES: bytes, TPULAB_JOURNAL_TOTAL_BYTES: bytes });

interface Gateway {
  readonly child: ChildProcess;
  readonly url: string;
}

/**
 * Starts a gateway in a separate process namespace, as in a container. Rejects with its printed output if it does not
 * start.
 */
async function container(before?: string): Promise<Gateway> {
  const program = await bridgeBuild();
  const port = await freePort();
  const child = spawn(
    'unshare',
    [
      ...['--mount', '--uts', '--pid', '--fork', '--mount-proc', '--kill-child', 'sh', '-c'],
      `${before ?? ''} exec "$0" "$@"`,
      ...[
        process.execPath,
        program,
        'serve',
        '--state-dir',
        state,
        '--root-dir',
        folder,
        '--port',
        String(port)
      ],
      ...['--env-dir', path.join(folder, 'no-environments')]
    ],
    {
      env: {
        ...process.env,
        TPULAB_TOKEN: TOKEN,
        JUPYTER_PATH: writeKernelSpecs(folder),
        PYTHONPATH: AGENT_SOURCES,
        // The first has room for its journal; the second would have to remove records from it immediately.
        ...quota(before === undefined ? '8 MiB' : '1 MiB')
      },
      stdio: ['ignore', 'pipe', 'pipe']
    }
  );
  children.push(child);
  let printed = '';
  child.stderr.on('data', chunk => (printed += String(chunk)));
  const ready = once(createInterface(child.stdout), 'line');
  const ended = once(child, 'close').then(([code]) => {
    throw new Error(`ended with ${code}: ${printed}`);
  });
  ended.catch(() => undefined);
  const [line] = (await Promise.race([ready, ended])) as [string];
  return { child, url: (JSON.parse(line) as { url: string }).url };
}

async function rest(gateway: Gateway, method: string, target: string, body?: object): Promise<unknown> {
  const response = await fetch(new URL(target, gateway.url), {
    method,
    headers: { authorization: `token ${TOKEN}` },
    ...(body ? { body: JSON.stringify(body) } : {})
  });
  return response.json();
}

/** A notebook whose kernel has printed several segments. */
async function printed(gateway: Gateway): Promise<string> {
  const session = await rest(gateway, 'POST', 'api/sessions', {
    path: 'only-in-A.ipynb',
    name: '',
    type: 'notebook',
    kernel: { name: 'lossless' }
  });
  const kernelId = (session as { kernel: { id: string } }).kernel.id;
  const client = new NumberedClient({ kind: 'stock', kernelId, url: () => gateway.url });
  await client.connect();
  client.execute('for n in range(400): print(f"#{n};" + "x" * 10000, flush=True)');
  await client.until(() => client.greatest === 399, 'for the last number');
  client[Symbol.dispose]();
  await vi.waitUntil(
    async () =>
      ((await rest(gateway, 'GET', `api/kernels/${kernelId}`)) as { execution_state: string })
        .execution_state === 'idle'
  );
  return kernelId;
}

/** All data that belongs to the owner, byte for byte. */
async function contents(kernelId: string): Promise<Record<string, string>> {
  const kernel = path.join('kernels', kernelId);
  const journal = (await readdir(path.join(state, kernel, 'journal'))).filter(name => name.endsWith('.seg'));
  const names = [
    ...['gateway.json', 'gateway.lock', 'sessions.json', 'token'],
    ...['keeper.json', 'keeper.lock', 'launch.json', 'connection.json'].map(name => path.join(kernel, name)),
    ...journal.map(name => path.join(kernel, 'journal', name))
  ];
  const found = await Promise.all(
    names.map(async name => {
      const content = await readFile(path.join(state, name)).catch(() => 'missing');
      return [name, createHash('sha256').update(content).digest('hex')] as const;
    })
  );
  return Object.fromEntries(found);
}

/** Simulates some minutes without a heartbeat. */
async function ageHeartbeats(names: readonly string[]): Promise<void> {
  const before = new Date(Date.now() - 10 * 60_000);
  for (const name of names) await utimes(path.join(state, name), before, before);
}

const message = (refusal: unknown): string => (refusal as Error).message;

describe.skipIf(!isPossible)('a state folder that several machines or containers share', () => {
  it('is refused to a second container, and to another machine, while its gateway or its kernels run', async () => {
    const a = await container();
    const kernelId = await printed(a);
    const pid = (JSON.parse(await readFile(path.join(state, 'gateway.json'), 'utf8')) as { pid: number }).pid;
    const before = await contents(kernelId);
    for (const where of ['', await otherMachine()]) {
      const refusal = message(await container(where).catch((error: unknown) => error));
      expect(refusal).toMatch(/ended with [1-9]/);
      for (const part of [state, hostname(), `pid ${pid} there`, '--state-dir'])
        expect(refusal).toContain(part);
    }
    expect(await contents(kernelId)).toEqual(before);

    // The gateway hangs while its kernels continue; they belong to that container.
    process.kill(await gatewayPid(a.child), 'SIGSTOP');
    await ageHeartbeats(['gateway.lock', 'gateway.json']);
    const refusal = message(await container(await otherMachine()).catch((error: unknown) => error));
    for (const part of [state, hostname(), kernelId, '--state-dir']) expect(refusal).toContain(part);
    expect(await contents(kernelId)).toEqual(before);
  });

  it('is taken over from a silent machine, whose data stays unchanged byte for byte', async () => {
    const a = await container();
    const kernelId = await printed(a);
    await killed(a.child);
    const before = await contents(kernelId);
    await ageHeartbeats([
      'gateway.lock',
      'gateway.json',
      `kernels/${kernelId}/keeper.json`,
      `kernels/${kernelId}/keeper.lock`
    ]);
    const b = await container(await otherMachine());
    expect(await readFile(path.join(state, 'gateway.log'), 'utf8')).toContain('took the state folder over');
    expect(await rest(b, 'GET', 'api/kernels')).toEqual([]);
    await rest(b, 'POST', 'api/sessions', {
      path: 'only-in-B.ipynb',
      type: 'notebook',
      kernel: { name: 'lossless' }
    });
    const sessions = await readFile(path.join(state, 'sessions.json'), 'utf8');
    expect(sessions).toContain('only-in-A.ipynb');
    expect(sessions).toContain('only-in-B.ipynb');
    // A notebook that requests that kernel gets another one.
    const requested = { path: 'c.ipynb', type: 'notebook', kernel: { name: 'lossless', id: kernelId } };
    const { kernel } = (await rest(b, 'POST', 'api/sessions', requested)) as { kernel: { id: string } };
    expect(kernel.id).not.toBe(kernelId);
    // This gateway's quota is far below the size of the other machine's journal, and it has cleaned up at its start.
    const after = await contents(kernelId);
    for (const name of Object.keys(before).filter(each => each.startsWith('kernels')))
      expect(after[name]).toBe(before[name]);
  });
});

/** The gateway's pid as seen from here: the one process of the container whose parent is the launching program. */
async function gatewayPid(child: ChildProcess): Promise<number> {
  return Number(
    (await readFile(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')).trim().split(' ')[0]
  );
}
