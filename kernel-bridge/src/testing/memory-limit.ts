/** A control group with little memory: Linux kills processes that need more, as on a machine whose memory is full. */
import { readFileSync } from 'node:fs';
import { mkdir, rmdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

export class MemoryLimit implements AsyncDisposable {
  private constructor(private readonly folder: string) {}

  /** @returns the reason as a text if this machine does not allow it */
  static async make(bytes: number): Promise<MemoryLimit | string> {
    if (process.platform !== 'linux') return 'needs the control groups of Linux';
    const name = `tpulab-memory-${process.pid}`;
    const own = /^\d+:memory:(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1];
    const [folder, limit] =
      own === undefined
        ? [path.join('/sys/fs/cgroup', name), 'memory.max']
        : [path.join('/sys/fs/cgroup/memory', own, name), 'memory.limit_in_bytes'];
    try {
      await mkdir(folder);
    } catch (error) {
      return `this machine lets nobody make a control group: ${(error as Error).message}`;
    }
    const made = new MemoryLimit(folder);
    try {
      await writeFile(path.join(folder, limit), String(bytes));
      return made;
    } catch (error) {
      await made[Symbol.asyncDispose]();
      return `the control groups of this machine have no memory limit: ${(error as Error).message}`;
    }
  }

  /** A process that writes its id into this file is limited from then on. */
  get members(): string {
    return path.join(this.folder, 'cgroup.procs');
  }

  /** Waits for the members, which have to end on their own. */
  async [Symbol.asyncDispose](): Promise<void> {
    while (readFileSync(this.members, 'utf8') !== '') await delay(50);
    await rmdir(this.folder);
  }
}

/** Python that allocates memory until Linux ends it. */
export const overfill = ({ members }: MemoryLimit): string =>
  [
    'import os',
    `open(${JSON.stringify(members)}, "w").write(str(os.getpid()))`,
    'kept = []',
    'while True: kept.append(bytearray(8_000_000))'
  ].join('\n');
