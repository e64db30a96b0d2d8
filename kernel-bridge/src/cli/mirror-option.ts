/** `--remote NAME`: the command reads what is mirrored of a remote instead of what this gateway's own kernels said. */
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Command } from 'commander';
import { chosenStateFolder } from './chosen-gateway.js';
import { CommandError } from './command-errors.js';

export function withMirrorOption(command: Command): Command {
  return command
    .option('--remote <name>', "read the local mirror of this remote's kernels")
    .hook('preAction', async (_, action) => {
      const { remote, stateDir } = action.opts<{ remote?: string; stateDir?: string }>();
      if (remote === undefined) return;
      action.setOptionValue('stateDir', await mirrorFolder(await chosenStateFolder(stateDir), remote));
    });
}

async function mirrorFolder(stateDir: string, remote: string): Promise<string> {
  const mirrors = path.join(stateDir, 'mirrors');
  const known = await readdir(mirrors).catch((): string[] => []);
  const folder = path.join(mirrors, remote);
  const found = known.includes(remote) ? await stat(folder).catch(() => null) : null;
  if (found?.isDirectory() === true) return folder;
  const names = known.length === 0 ? 'there is none' : `there are ${known.join(', ')}`;
  throw new CommandError(
    'mirror_unknown',
    `Nothing from a remote named "${remote}" is mirrored on this machine (${names}).`
  );
}
