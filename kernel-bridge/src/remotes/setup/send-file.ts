/** Sends files to a host, with what is seen of it. */
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { LIST_SCRIPT } from './host-scripts.js';
import { type HostSession, QUICK_MS } from './host-session.js';
import { sha256Of } from './payload.js';
import type { RunningStage } from './stage-reporter.js';

export async function sendFile(
  session: HostSession,
  local: string,
  name: string,
  stage: RunningStage
): Promise<void> {
  await session.upload(local, name, (bytes, total) => {
    stage.at(
      `sending ${path.basename(name)}, ${inMiB(bytes)} of ${inMiB(total)}`,
      total === 0 ? 1 : bytes / total
    );
  });
}

/** Sends those that are not there with the same content. Their names must differ. */
export async function sendFiles(
  session: HostSession,
  files: readonly string[],
  folder: string,
  stage: RunningStage
): Promise<void> {
  const there = new Map<string, string>();
  await session.run(LIST_SCRIPT, [folder], {
    timeoutMs: 10 * QUICK_MS,
    onSaid: (key, value) => {
      const space = value.indexOf(' ');
      if (key === 'file') there.set(value.slice(space + 1), value.slice(0, space));
    }
  });
  const sizes = await Promise.all(files.map(async file => (await stat(file)).size));
  const total = sizes.reduce((sum, size) => sum + size, 0);
  let done = 0;
  for (const [at, file] of files.entries()) {
    const name = path.basename(file);
    const before = done;
    if (there.get(name) !== (await sha256Of(file))) {
      await session.upload(file, `${folder}/${name}`, bytes =>
        stage.at(`sending ${name}, ${inMiB(before + bytes)} of ${inMiB(total)}`, (before + bytes) / total)
      );
    }
    done += sizes[at] ?? 0;
  }
}

export function inMiB(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(bytes < 10 * 2 ** 20 ? 1 : 0)} MiB`;
}
