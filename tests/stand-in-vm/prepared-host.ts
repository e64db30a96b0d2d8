/** A host with everything that a setup needs: the tools, the bridge of a bundle, and an environment of the checkout. */
import { execFile } from 'node:child_process';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { environmentFolder, readContext } from '../../machines/src/setup/host-layout.js';
import type { InstalledBridge } from './installed-bridge.js';

const run = promisify(execFile);
const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url)).replace(/\/$/, '');
/** The environments of the checkout. */
export const ENVIRONMENTS = path.join(CHECKOUT, '.tpulab', 'envs');

/** @param payload folder of the bundle */
export function preparedHost(payload: string, environment = 'jax') {
  const place = path.join(ENVIRONMENTS, environment);
  return async (homes: string, user: string, userId: number): Promise<InstalledBridge> => {
    const context = await readContext(environment, payload);
    const { layout, tools } = context;
    const base = path.join(homes, user, '.tpulab');
    const link = async (target: string, at: string): Promise<void> => {
      await mkdir(path.dirname(path.join(base, at)), { recursive: true });
      await symlink(target, path.join(base, at));
    };
    await link('/opt/node', `${layout.node}/${tools.node.program}`);
    await link('/opt/bridge', layout.bridge);
    await link('/opt/environment', environmentFolder(context));
    const uv = path.join(base, layout.uv, tools.uv.program);
    await mkdir(path.dirname(uv), { recursive: true });
    await writeFile(uv, '#!/bin/sh\nexit 1\n', { mode: 0o755 });
    await run('chown', ['-R', '-h', `${userId}:${userId}`, path.join(homes, user)]);
    const python = path.join(place, 'bin', 'python');
    const { stdout } = await run(python, ['-c', 'import sys; print(sys.base_prefix)']);
    return {
      visible: [stdout.trim(), CHECKOUT],
      mounts: { '/opt/bridge': payload, '/opt/environment': place }
    };
  };
}
