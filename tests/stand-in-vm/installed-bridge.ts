/** The bridge as installed by hand on a VM: `tpulab` on the user's PATH, with a kernel that starts quickly. */
import { execFile } from 'node:child_process';
import { chmod, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { AGENT_SOURCES, bridgeBuild } from '../../kernel-bridge/src/faults/testing/bridge-build.js';
import { writeKernelSpecs } from '../../kernel-bridge/src/testing/kernelspecs.js';

const run = promisify(execFile);
const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url)).replace(/\/$/, '');

/** Mount point of the environment of the kernels there; its own folder is readable only by its owner. */
const ENVIRONMENT = '/opt/environment';

export interface InstalledBridge {
  /** Files that every user of the machine must be able to read. */
  readonly visible: readonly string[];
  readonly mounts: Readonly<Record<string, string>>;
}

export async function installBridge(homes: string, user: string, userId: number): Promise<InstalledBridge> {
  const program = await bridgeBuild();
  // It was created with access only for its owner.
  await chmod(path.resolve(path.dirname(program), '..', '..'), 0o755);
  const home = path.join(homes, user);
  const bin = path.join(home, '.local', 'bin');
  await run('mkdir', ['-p', bin]);
  const environment = path.join(CHECKOUT, '.tpulab', 'envs', 'jax');
  const python = path.join(environment, 'bin', 'python');
  await useEnvironment(writeKernelSpecs(home), python);
  const { stdout } = await run(python, ['-c', 'import sys; print(sys.base_prefix)']);
  const starter = [
    '#!/bin/sh',
    `export JUPYTER_PATH="/home/${user}/jupyter" PYTHONPATH='${AGENT_SOURCES}'`,
    `export TPULAB_ENV_DIR="$HOME/no-environments" TPULAB_ROOT_DIR="\${TPULAB_ROOT_DIR:-$HOME}"`,
    `exec /opt/node '${program}' "$@"`
  ];
  await writeFile(path.join(bin, 'tpulab'), `${starter.join('\n')}\n`, { mode: 0o755 });
  await run('chown', ['-R', `${userId}:${userId}`, home]);
  return { visible: [stdout.trim(), CHECKOUT], mounts: { [ENVIRONMENT]: environment } };
}

async function useEnvironment(dataFolder: string, python: string): Promise<void> {
  const kernels = path.join(dataFolder, 'kernels');
  for (const name of await readdir(kernels)) {
    const file = path.join(kernels, name, 'kernel.json');
    const text = await readFile(file, 'utf8');
    await writeFile(file, text.replaceAll(python, `${ENVIRONMENT}/bin/python`));
  }
}
