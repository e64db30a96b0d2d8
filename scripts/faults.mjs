// @ts-check
/**
 * `npm run test:faults`: every fault of docs/faults.md in full, and one table of each client's lost, repeated and
 * reordered messages. `npm test` runs the same cases in a short form.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { faultTable } from './faults/fault-table.mjs';
import { runVitest } from './faults/run-cases.mjs';
import { checkout } from './setup/checkout.mjs';
import { main } from './setup/main.mjs';
import { SetupProblem } from './setup/setup-problem.mjs';

const HELP = `npm run test:faults [-- FILE…] [-- --short]

Runs the fault cases (all, or those of the files connections, processes, kernels, storage, power) and prints their results,
which are also written to .tpulab/reports/faults.json.

  --short       the short form, as in npm test
  --case TEXT   only cases whose name contains this text
  --help        this text

Needs the setup of npm test. Some cases need Linux and root; elsewhere they are skipped and listed.`;

const LIMIT_MS = 60 * 60_000;
const FILES = ['connections', 'processes', 'kernels', 'storage', 'power'];

await main(async signal => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      short: { type: 'boolean', default: false },
      case: { type: 'string' },
      help: { type: 'boolean', default: false }
    }
  });
  const print = (/** @type {string} */ line) => process.stdout.write(`${line}\n`);
  if (values.help) {
    print(HELP);
    return 0;
  }
  const unknown = positionals.find(name => !FILES.includes(name));
  if (unknown !== undefined) {
    throw new SetupProblem(
      'bad-option',
      `There are no cases named ${unknown}; there are ${FILES.join(', ')}.`
    );
  }
  const wanted = positionals.length > 0 ? positionals : FILES;
  const lines = path.join(checkout.reports, 'faults.jsonl');
  await mkdir(checkout.reports, { recursive: true });
  await rm(lines, { force: true });
  const ended = await runVitest(
    [
      '--reporter=verbose',
      ...(values.case === undefined ? [] : ['-t', values.case]),
      ...wanted.map(name => `kernel-bridge/src/faults/${name}.integration.spec.ts`)
    ],
    {
      cwd: checkout.root,
      signal,
      timeoutMs: LIMIT_MS,
      onLine: print,
      env: {
        CI: 'true',
        NO_COLOR: '1',
        TPULAB_FAULTS_REPORT: lines,
        ...(values.short ? {} : { TPULAB_FAULTS: 'full' })
      }
    }
  );
  const rows = (await readFile(lines, 'utf8').catch(() => ''))
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line));
  await rm(lines, { force: true });
  await writeFile(path.join(checkout.reports, 'faults.json'), `${JSON.stringify(rows, null, 2)}\n`);
  print(`\n${faultTable(rows)}\n\nAlso in .tpulab/reports/faults.json.`);
  if (ended.timedOut) print(`Ended after ${LIMIT_MS / 60_000} min, the limit.`);
  return ended.exitCode === 0 && rows.length > 0 ? 0 : 1;
});
