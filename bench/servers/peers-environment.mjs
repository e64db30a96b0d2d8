// @ts-check
/** The Python environment of the compared servers, from `environments/bench-peers`; created at the first use. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { checkout } from '../../scripts/setup/checkout.mjs';
import { fingerprint } from '../../scripts/setup/fingerprint.mjs';
import { lockOf, makePythonEnvironment, pythonIn } from '../../scripts/setup/python-environment.mjs';
import { setUp } from '../../scripts/setup/set-up.mjs';
import { uvTool } from '../../scripts/setup/tools.mjs';

const PLACE = path.join(checkout.made, 'bench-peers');

/** @type {import('../../scripts/setup/stage.mjs').Stage} */
const peersEnvironment = {
  id: 'bench-peers',
  title: 'Python of the servers to compare with',
  fingerprint: () => fingerprint({ files: [lockOf('bench-peers')] }),
  isThere: async () => existsSync(pythonIn(PLACE)),
  make: context => makePythonEnvironment({ name: 'bench-peers', place: PLACE }, context)
};

/** Its Python; on machines without a checkout's setup, the variable names another one with the same packages. */
export async function peersPython() {
  const named = process.env['TPULAB_BENCH_PEERS_PYTHON'];
  if (named !== undefined) return named;
  await setUp({ stages: [uvTool, peersEnvironment], signal: new AbortController().signal });
  return pythonIn(PLACE);
}
