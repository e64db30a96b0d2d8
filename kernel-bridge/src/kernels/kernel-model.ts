/** A kernel in the form of Jupyter's REST API. */
import { type Static, Type } from '@sinclair/typebox';
import type { Kernel } from './kernel.js';

export const KernelModel = Type.Object({
  id: Type.String(),
  name: Type.String(),
  last_activity: Type.String({ format: 'date-time' }),
  execution_state: Type.String({ description: 'starting, idle, busy, restarting, dead, unknown' }),
  connections: Type.Integer({ minimum: 0 }),
  reason: Type.Optional(Type.String({ description: 'why the kernel is dead, restarting or unreachable' })),
  last_end: Type.Optional(Type.String({ description: 'how its previous process ended' })),
  journal_fault: Type.Optional(
    Type.String({ description: 'why its output cannot be written at the moment and may be lost' })
  )
});
export type KernelModel = Static<typeof KernelModel>;

export function kernelModel(kernel: Kernel): KernelModel {
  const { specName, lastActivity, executionState, reason, lastEnd } = kernel.snapshot;
  return {
    id: kernel.id,
    name: specName,
    last_activity: new Date(lastActivity).toISOString(),
    execution_state: executionState,
    connections: kernel.connections,
    ...(reason === null ? {} : { reason }),
    ...(lastEnd === undefined ? {} : { last_end: lastEnd }),
    ...(kernel.journalFault === null ? {} : { journal_fault: kernel.journalFault.message })
  };
}
