/** Which state folder a command means: the one that is named, else that of the gateway that runs. */
import path from 'node:path';
import type { Command } from 'commander';
import { PACKAGE_FOLDER } from '../environments/locations.js';
import { type RunningGatewayFolder, runningGateways } from '../gateway/running-gateways.js';
import { stateFolder } from '../gateway/state-folder.js';
import { CommandError } from './command-errors.js';
import type { OutputOptions } from './output.js';
import { RunningGateway } from './running-gateway.js';

/** What every command has that looks at a state folder or at the gateway of one. */
export interface StateOptions extends OutputOptions {
  readonly stateDir?: string;
}

export function ofState(command: Command, json = 'print JSON'): Command {
  return command
    .option('--state-dir <folder>', "the server's state folder (default: the running server's)")
    .option('--json', json);
}

/** @throws CommandError `no_gateway`, `several_gateways`, `gateway_unresponsive` */
export async function chosenGateway({ stateDir }: StateOptions): Promise<RunningGateway> {
  return RunningGateway.find(await chosenStateFolder(stateDir));
}

/** `.tpulab`, in which `npm start` keeps its state: beside `kernel-bridge`, and around the bundle. */
const OF_CHECKOUT = ['../.tpulab', '..']
  .map(part => path.resolve(PACKAGE_FOLDER, part))
  .filter(folder => path.basename(folder) === '.tpulab');

/**
 * `--state-dir`, else `$TPULAB_STATE_DIR`, else the folder of the one gateway that runs; the checkout's own goes before others. Where
 * none runs, the default folder.
 *
 * @throws CommandError `several_gateways`
 */
export async function chosenStateFolder(
  asked: string | undefined,
  env: NodeJS.ProcessEnv = process.env,
  running: () => Promise<readonly RunningGatewayFolder[]> = runningGateways
): Promise<string> {
  if (asked !== undefined || (env['TPULAB_STATE_DIR'] ?? '') !== '') return stateFolder(asked, env);
  const found = await running();
  const own = found.filter(({ stateDir }) => isOfCheckout(stateDir));
  const [chosen, ...others] = own.length > 0 ? own : found;
  if (chosen === undefined) return stateFolder(undefined, env);
  if (others.length === 0) return chosen.stateDir;
  const lines = [chosen, ...others].map(
    ({ stateDir, record }) => `  --state-dir ${stateDir}  (${record.url}, since ${record.startedAt})`
  );
  throw new CommandError(
    'several_gateways',
    `${lines.length} servers are running; choose one with --state-dir. Newest first:\n${lines.join('\n')}`
  );
}

function isOfCheckout(stateDir: string): boolean {
  return OF_CHECKOUT.some(folder => stateDir.startsWith(folder + path.sep));
}
