// @ts-check
/** `npm run package`: makes the installable packages in `dist/`. */
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { makeBridgeBundle } from './package/bridge-bundle.mjs';
import { makeLabWheel } from './package/lab-wheel.mjs';
import { build } from './setup/build.mjs';
import { checkout, shown } from './setup/checkout.mjs';
import { jaxEnvironment } from './setup/kernel-environment.mjs';
import { main } from './setup/main.mjs';
import { npmPackages } from './setup/npm-packages.mjs';
import { sessionPage } from './setup/session-page.mjs';
import { runOrExplain } from './setup/run-command.mjs';
import { setUp } from './setup/set-up.mjs';
import { StagePrinter } from './setup/stage-printer.mjs';
import { uvTool } from './setup/tools.mjs';

const HELP = `npm run package [-- --out FOLDER]

Builds the packages that people install:
  tpulab-*.whl   for pip and uvx: the server, JupyterLab's extension, the command tpulab; Node comes as a dependency
  tpulab-*.tgz   for npm: the server, the session page and the command
  bridge/        the same as a folder

Both have the documentation, the lessons, and the packages that are installed into kernels.

The same sources give the same files. SOURCE_DATE_EPOCH sets the time in the wheels.

  --out FOLDER   output folder (default: dist)
  --help         this text`;

await main(async signal => {
  const { values } = parseArgs({ options: { out: { type: 'string' }, help: { type: 'boolean' } } });
  if (values.help) {
    process.stdout.write(`${HELP}\n`);
    return 0;
  }
  const out = path.resolve(values.out ?? path.join(checkout.root, 'dist'));
  const printer = new StagePrinter();
  await setUp({ stages: [npmPackages, uvTool, build, sessionPage, jaxEnvironment], signal, printer });
  await mkdir(out, { recursive: true });
  for (const old of await readdir(out)) {
    if (/^(tpulab|jupyterlab_tpulab).*\.(whl|tgz)$/.test(old)) await rm(path.join(out, old));
  }
  const bridge = path.join(out, 'bridge');
  await step(printer, 'documentation', () =>
    runOrExplain(
      'building the documentation',
      process.execPath,
      [path.join(checkout.root, 'scripts', 'docs.mjs')],
      { cwd: checkout.root, signal, timeoutMs: 900_000 }
    )
  );
  const documentation = path.join(checkout.root, '.tpulab', 'docs', 'dist');
  await step(printer, 'bridge', detail => makeBridgeBundle(bridge, { signal, documentation, detail }));
  await step(printer, 'wheel', () => makeLabWheel(bridge, out, signal));
  await step(printer, 'npm package', () =>
    runOrExplain('packing the bridge', 'npm', ['pack', '--silent', '--pack-destination', out, bridge], {
      cwd: out,
      signal,
      timeoutMs: 120_000
    })
  );
  for (const file of (await readdir(out)).filter(name => /\.(whl|tgz)$/.test(name)).sort()) {
    const at = path.join(out, file);
    const digest = createHash('sha256')
      .update(await readFile(at))
      .digest('hex');
    printer.line(
      `${shown(at)}  ${((await stat(at)).size / 2 ** 20).toFixed(1)} MiB  sha256 ${digest.slice(0, 16)}…`
    );
  }
  return 0;
});

/**
 * @param {StagePrinter} printer
 * @param {string} title
 * @param {(detail: (text: string) => void) => Promise<unknown>} work
 */
async function step(printer, title, work) {
  const { detail, done, failed } = printer.begin(title);
  try {
    await work(detail);
    done();
  } catch (error) {
    failed();
    throw error;
  }
}
