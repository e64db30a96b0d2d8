/** `tpulab serve`: a gateway in the foreground. */
import { Command, InvalidArgumentError, Option } from 'commander';
import type { ServeReady } from '@tpulab/protocol';
import type { Level } from 'pino';
import { normalOrigin } from '../server/origin-policy.js';
import { type Gateway, startGateway } from '../server/gateway.js';
import { prepareStateFolder, stateFolder } from '../server/state-folder.js';
import { LEVELS, openLog } from './logging.js';
import type { Streams } from './output.js';

interface ServeOptions {
  readonly port: number;
  readonly host: string;
  readonly token?: string;
  readonly stateDir?: string;
  readonly envDir?: string;
  readonly rootDir: string;
  readonly allowOrigin: readonly string[];
  readonly allowHost: readonly string[];
  readonly defaultKernel?: string;
  readonly logLevel: Level;
}

export function serveCommand(streams: Streams): Command {
  return new Command('serve')
    .description(
      'serve kernels until SIGTERM or SIGINT; kernels go on without the gateway and the next one finds them'
    )
    .option('--port <number>', 'port, 0 for a free one', parsePort, 0)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option(
      '--token <token>',
      'token of the gateway; better in TPULAB_TOKEN, where other users cannot see it'
    )
    .option('--state-dir <folder>', 'state: kernels, journals, token, log (default: $XDG_STATE_HOME/tpulab)')
    .option('--env-dir <folder>', 'environments of kernels (default: $TPULAB_ENV_DIR)')
    .option('--root-dir <folder>', 'folder to which the paths of clients are relative', process.cwd())
    .option(
      '--allow-origin <origin>',
      'origin of pages that may use the gateway; repeatable',
      collectOrigin,
      []
    )
    .option('--allow-host <name>', 'further name that the Host header may have; repeatable', collect, [])
    .option('--default-kernel <name>', 'kernelspec to start when a client names none')
    .addOption(new Option('--log-level <level>', 'level of gateway.log').choices(LEVELS).default('info'))
    .option('--json', 'no effect on success: the ready line is JSON always; failures as JSON too')
    .action((options: ServeOptions) => serve(options, streams));
}

async function serve(options: ServeOptions, streams: Streams): Promise<void> {
  const stateDir = stateFolder(options.stateDir);
  await prepareStateFolder(stateDir);
  const log = openLog(stateDir, options.logLevel);
  const stopping = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stopping.abort(signal));
  let gateway: Gateway | null = null;
  try {
    gateway = await startGateway({
      stateDir,
      rootDir: options.rootDir,
      host: options.host,
      port: options.port,
      token: options.token ?? (process.env['TPULAB_TOKEN'] || undefined),
      envDir: options.envDir,
      allowedOrigins: options.allowOrigin,
      allowedHosts: options.allowHost,
      defaultKernel: options.defaultKernel,
      log
    });
    await gateway.ready;
    const line: ServeReady = { url: gateway.url, pid: process.pid };
    streams.stdout.write(`${JSON.stringify(line)}\n`);
    await aborted(stopping.signal);
    log.info({ signal: String(stopping.signal.reason) }, 'gateway stopping; kernels go on');
  } finally {
    await gateway?.[Symbol.asyncDispose]();
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise(resolve => signal.addEventListener('abort', () => resolve(), { once: true }));
}

function parsePort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : NaN;
  if (!(port <= 65_535)) throw new InvalidArgumentError('A port is a number from 0 to 65535.');
  return port;
}

function collect(value: string, previous: readonly string[]): readonly string[] {
  return [...previous, value];
}

function collectOrigin(value: string, previous: readonly string[]): readonly string[] {
  try {
    return [...previous, normalOrigin(value)];
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
  }
}
