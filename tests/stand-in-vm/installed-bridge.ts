/** The bridge as somebody has installed it on a VM by hand: `tpulab` on the user's PATH, with a kernel that starts quickly. */
import { execFile } from 'node:child_process';
import { chmod, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { AGENT_SOURCES, bridgeBuild } from '../../kernel-bridge/src/faults/testing/bridge-build.js';
import { writeKernelSpecs } from '../../kernel-bridge/src/server/testing/kernelspecs.js';

const run = promisify(execFile);
const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url)).replace(/\/$/, '');

/** The result is what everybody on the machine must be able to read. */
export async function installBridge(homes: string, user: string, userId: number): Promise<string[]> {
  const program = await bridgeBuild();
  // It was made for its maker alone.
  await chmod(path.resolve(path.dirname(program), '..', '..'), 0o755);
  const home = path.join(homes, user);
  const bin = path.join(home, '.local', 'bin');
  await run('mkdir', ['-p', bin]);
  writeKernelSpecs(home);
  const python = path.join(CHECKOUT, '.tpulab', 'envs', 'jax', 'bin', 'python');
  const { stdout } = await run(python, ['-c', 'import sys; print(sys.base_prefix)']);
  const starter = [
    '#!/bin/sh',
    `export JUPYTER_PATH="/home/${user}/jupyter" PYTHONPATH='${AGENT_SOURCES}'`,
    `export TPULAB_ENV_DIR="$HOME/no-environments" TPULAB_ROOT_DIR="$HOME"`,
    `exec /opt/node '${program}' "$@"`
  ];
  await writeFile(path.join(bin, 'tpulab'), `${starter.join('\n')}\n`, { mode: 0o755 });
  await run('chown', ['-R', `${userId}:${userId}`, home]);
  return [stdout.trim(), CHECKOUT];
}
