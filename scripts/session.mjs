// @ts-check
/** `npm run session`. Sets up what is missing, then opens the session page with a gateway of this checkout, until Ctrl-C. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { checkout } from './setup/checkout.mjs';
import { main } from './setup/main.mjs';
import { requireNode } from './setup/node-version.mjs';

const HELP = `npm run session [-- NOTEBOOK] [-- OPTIONS]

Sets up what is missing, then opens the session page in a browser and serves it until Ctrl-C.
Options are those of "tpulab session"; --root-dir defaults to the folder notebooks, unless you name a notebook.`;

await main(async signal => {
  requireNode(process.versions.node);
  const args = process.argv.slice(2);
  if (args.includes('--help')) {
    process.stdout.write(`${HELP}\n`);
    return 0;
  }
  const { setUp, START_STAGES } = await import('./setup/set-up.mjs');
  await setUp({ stages: START_STAGES, signal });
  const from = process.env['INIT_CWD'] ?? process.cwd();
  const isNamed = args.some(arg => arg.endsWith('.ipynb')) || args.includes('--root-dir');
  const child = spawn(
    process.execPath,
    [
      ...[checkout.cli, 'session', ...args, '--state-dir', path.join(checkout.state, 'bridge')],
      ...['--env-dir', checkout.envs],
      ...(isNamed ? [] : ['--root-dir', checkout.notebooks])
    ],
    { cwd: from, stdio: 'inherit' }
  );
  signal.addEventListener('abort', () => void child.kill('SIGTERM'));
  const [code] = await once(child, 'exit');
  return Number(code ?? 0);
});
