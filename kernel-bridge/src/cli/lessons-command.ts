/** `tpulab examples FOLDER`: copies the bundled notebooks into a folder. */
import path from 'node:path';
import { Command } from 'commander';
import { copyLessons } from '@tpulab/machines/environments';
import { type OutputOptions, print, type Streams } from './output.js';

export function lessonsCommand(streams: Streams): Command {
  return new Command('examples')
    .description('copy the example notebooks into a folder; existing files stay unchanged')
    .argument('<folder>', 'folder to copy them into; created if missing')
    .option('--json', 'print JSON')
    .action(async (folder: string, options: OutputOptions) => {
      const done = await copyLessons(path.resolve(folder));
      const unchanged =
        done.kept.length === 0 ? '' : ` ${done.kept.length} existed already and were left unchanged.`;
      const text = `${done.copied.length} examples are now in ${done.folder}.${unchanged}`;
      print(streams, options, done, text);
    });
}
