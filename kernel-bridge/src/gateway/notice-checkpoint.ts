/** When the cloud announces a preemption, every run that supports it is asked for a checkpoint, once per notice. */
import { randomUUID } from 'node:crypto';
import type { ControlCommand, ControlMessage, RemoteNotice } from '@tpulab/protocol';
import type { Logger } from 'pino';

interface Steerable {
  readonly id: string;
  control(command: ControlCommand): Promise<ControlMessage>;
}

interface NoticeCheckpointOptions {
  readonly notices: { listen(listener: (notice: RemoteNotice | null) => void): Disposable };
  readonly kernels: () => readonly Steerable[];
  readonly log: Logger;
}

export function checkpointOnNotice({ notices, kernels, log }: NoticeCheckpointOptions): Disposable {
  const requested = new Set<string>();
  return notices.listen(notice => {
    if (notice === null) return;
    const key = `${notice.kind}/${notice.since ?? 0}`;
    if (requested.has(key)) return;
    requested.add(key);
    for (const kernel of kernels()) {
      kernel.control({ id: randomUUID(), action: 'checkpoint' }).then(
        ({ phase, reason }) => log.info({ kernelId: kernel.id, phase, reason }, 'a checkpoint was asked for'),
        // Most kernels have no run; that is not an error.
        (error: unknown) => log.debug({ kernelId: kernel.id, err: error }, 'no checkpoint could be asked for')
      );
    }
  });
}
