/** `tpulab journal`: what kernels said, as it lies on the disk. All of it works with or without a gateway. */
import { Command } from 'commander';
import { ofState } from '../chosen-gateway.js';
import { withMirrorOption } from '../mirror-option.js';
import type { Streams } from '../output.js';
import { exportCommand } from './export-command.js';
import { listCommand } from './list-command.js';
import { pruneCommand } from './prune-command.js';
import { repairCommand } from './repair-command.js';
import { showCommand } from './show-command.js';
import { verifyCommand } from './verify-command.js';

export function journalCommand(streams: Streams): Command {
  const journal = new Command('journal').description('read, check, export and prune kernel journals');
  for (const command of [
    listCommand(streams),
    showCommand(streams),
    verifyCommand(streams),
    exportCommand(streams),
    pruneCommand(streams),
    repairCommand(streams)
  ]) {
    journal.addCommand(ofState(withMirrorOption(command)));
  }
  return journal;
}
