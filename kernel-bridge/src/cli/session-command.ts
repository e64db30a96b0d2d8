/** `tpulab session`: opens the session page in a browser, with its gateway. */
import { spawn } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { isWithin } from '@tpulab/platform/paths.js';
import { Type } from '@sinclair/typebox';
import { Command } from 'commander';
import { writeAtomically } from '@tpulab/platform/write-atomically.js';
import { resolveSettings } from '../config/resolve-settings.js';
import { chosenStateFolder, RunningGateway, type StateOptions } from './running-gateway.js';
import { CommandError, print, type Streams } from './output.js';

interface SessionOptions extends StateOptions {
  readonly rootDir?: string;
  readonly envDir?: string;
  readonly port?: string;
  readonly browser: boolean;
}

const PageCode = Type.Object({ code: Type.String() });

export function sessionCommand(streams: Streams): Command {
  return new Command('session')
    .description(
      'open the session page with a notebook or the list of notebooks; starts a server if none is running. The link works once, for ten minutes'
    )
    .argument('[notebook]', 'notebook to open')
    .option(
      '--root-dir <folder>',
      "folder of notebooks, if a server is started (default: the notebook's folder)"
    )
    .option('--env-dir <folder>', 'folder of kernel environments, if a server is started')
    .option('--port <n>', 'port, if a server is started (default: a free one)')
    .option('--no-browser', 'print the link instead of opening a browser')
    .option('--state-dir <folder>', "the server's state folder (default: the running server's)")
    .option('--json', 'print JSON')
    .action(async (notebook: string | undefined, options: SessionOptions) => {
      const requested = notebook === undefined ? undefined : requireNotebook(notebook);
      const stateDir = await chosenStateFolder(options.stateDir);
      const running = await RunningGateway.find(stateDir).catch((error: unknown) => {
        if (error instanceof CommandError && error.code === 'no_gateway') return null;
        throw error;
      });
      const open = async (gateway: RunningGateway, rootDir: string | undefined): Promise<void> => {
        const notebook = relativeToRoot(requested, rootDir);
        const { code } = await gateway.request(PageCode, 'POST', 'bridge/v1/page-code');
        const link = sessionLink(gateway.record.url, code, notebook);
        print(streams, options, { url: link }, link);
        if (options.browser) await openBrowser(stateDir, link);
      };
      if (running !== null) {
        await open(running, running.record.rootDir);
        return;
      }
      const rootDir = path.resolve(
        options.rootDir ?? (requested === undefined ? '.' : path.dirname(requested))
      );
      const { envDir, port } = options;
      const flags = { stateDir, rootDir, ...(envDir && { envDir }), ...(port && { port: Number(port) }) };
      const settings = resolveSettings({ flags, env: process.env, file: new Map() });
      const { serveUntilStopped } = await import('./serve-gateway.js');
      await serveUntilStopped(settings.values, async () =>
        open(await RunningGateway.find(stateDir), rootDir)
      );
    });
}

/** The code works once. It is in the fragment, which reaches no server and no log. */
export function sessionLink(gateway: string, code: string, notebook: string | null): string {
  const name = (notebook ?? '').split('/').map(encodeURIComponent).join('/');
  return `${new URL(`session/${name}`, gateway).href}#${new URLSearchParams({ code }).toString()}`;
}

function requireNotebook(notebook: string): string {
  const file = path.resolve(notebook);
  if (existsSync(file) && statSync(file).isFile()) return file;
  throw new CommandError('notebook_unusable', `There is no notebook ${file}; name an existing one, or none.`);
}

/** The notebook's path relative to the root folder, as the page names it. */
function relativeToRoot(file: string | undefined, rootDir: string | undefined): string | null {
  if (file === undefined) return null;
  if (rootDir !== undefined && file !== rootDir && isWithin(rootDir, file))
    return path.relative(rootDir, file).split(path.sep).join('/');
  const root = rootDir ?? 'an unknown folder';
  throw new CommandError(
    'notebook_unusable',
    `The running server serves the files below ${root}, and ${file} is not one of them; start another with --state-dir.`
  );
}

/**
 * Opens the browser through a file that only this user can read, because every user of the machine can see a command line.
 * On a machine without a browser, the user opens the printed link.
 */
async function openBrowser(stateDir: string, link: string): Promise<void> {
  const file = path.join(stateDir, 'open-session.html');
  const target = link.replaceAll('&', '&amp;').replaceAll('"', '&quot;');
  await writeAtomically(file, `<!doctype html><meta http-equiv="refresh" content="0;url=${target}">\n`);
  const program = process.platform === 'darwin' ? 'open' : (process.env['BROWSER'] ?? 'xdg-open');
  const child = spawn(program, [file], { stdio: 'ignore', detached: true });
  child.on('error', () => undefined);
  child.unref();
}
