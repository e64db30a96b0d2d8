// @ts-check
/**
 * `npm run soak`: the bridge under steady output, with clients that come and go, executions and restarts, for as long as
 * wanted; prints by how much memory, descriptors, timers and handles of gateway and keeper grow, and fails when they do.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { runVitest } from './faults/run-cases.mjs';
import { checkout } from './setup/checkout.mjs';
import { main } from './setup/main.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';

const HELP = `npm run soak [-- --minutes N]

  --minutes N   duration (default: 30; 1 to 240)
  --help        this text

Needs the setup of npm test. The samples are written to .tpulab/reports/soak.json.`;

await main(async signal => {
  const { values } = parseArgs({
    options: { minutes: { type: 'string', default: '30' }, help: { type: 'boolean', default: false } }
  });
  const print = (/** @type {string} */ line) => process.stdout.write(`${line}\n`);
  if (values.help) {
    print(HELP);
    return 0;
  }
  const minutes = Number(values.minutes);
  if (!(minutes >= 1 && minutes <= 240)) {
    throw new SetupProblem('bad-option', '--minutes wants a number from 1 to 240.');
  }
  const report = path.join(checkout.reports, 'soak.json');
  await mkdir(checkout.reports, { recursive: true });
  await rm(report, { force: true });
  const ended = await runVitest(['--reporter=verbose', 'kernel-bridge/src/faults/soak.integration.spec.ts'], {
    cwd: checkout.root,
    signal,
    timeoutMs: (minutes * 2 + 10) * 60_000,
    onLine: print,
    env: { CI: 'true', NO_COLOR: '1', TPULAB_SOAK_MINUTES: String(minutes), TPULAB_SOAK_REPORT: report }
  });
  const text = await readFile(report, 'utf8').catch(() => null);
  if (text !== null) {
    const { lines, loaded } = /** @type {{ lines: string[], loaded: object }} */ (JSON.parse(text));
    print(`\n${lines.join('\n')}\n\nThe samples are in .tpulab/reports/soak.json.`);
    await writeFile(report, `${JSON.stringify({ lines, samples: loaded }, null, 2)}\n`);
  }
  return ended.exitCode === 0 && text !== null ? 0 : 1;
});
