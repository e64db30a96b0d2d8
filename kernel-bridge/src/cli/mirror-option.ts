/** `--machine NAME`: the command reads the local copy of a machine's output instead of the output of this server's kernels. */
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Command } from 'commander';
import { chosenStateFolder } from './chosen-gateway.js';
import { CommandError } from './command-errors.js';

export function withMirrorOption(command: Command): Command {
  return command
    .option('--machine <name>', "read the local copy of this machine's output")
    .hook('preAction', async (_, action) => {
      const { machine, stateDir } = action.opts<{ machine?: string; stateDir?: string }>();
      if (machine === undefined) return;
      action.setOptionValue('stateDir', await mirrorFolder(await chosenStateFolder(stateDir), machine));
    });
}

async function mirrorFolder(stateDir: string, remote: string): Promise<string> {
  const mirrors = path.join(stateDir, 'mirrors');
  const known = await readdir(mirrors).catch((): string[] => []);
  const folder = path.join(mirrors, remote);
  const found = known.includes(remote) ? await stat(folder).catch(() => null) : null;
  if (found?.isDirectory() === true) return folder;
  const names = known.length === 0 ? 'there are none' : `saved: ${known.join(', ')}`;
  throw new CommandError(
    'mirror_unknown',
    `No output of a machine named "${remote}" is saved on this computer (${names}).`
  );
}
