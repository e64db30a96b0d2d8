/** A session: a document's tie to a kernel. */
import { type Static, Type } from '@sinclair/typebox';
import type { Kernel } from '../kernels/kernel.js';
import { KernelModel, kernelModel } from '../kernels/kernel-model.js';

export const SessionRecord = Type.Object({
  id: Type.String(),
  path: Type.String(),
  name: Type.String(),
  type: Type.String(),
  kernelId: Type.String()
});
/** A session as it is kept in sessions.json. */
export type SessionRecord = Static<typeof SessionRecord>;

export const SessionModel = Type.Object({
  id: Type.String(),
  path: Type.String(),
  name: Type.String(),
  type: Type.String(),
  kernel: KernelModel,
  notebook: Type.Optional(
    Type.Object(
      { path: Type.String(), name: Type.String() },
      { description: 'for old clients, notebooks only' }
    )
  )
});
export type SessionModel = Static<typeof SessionModel>;

export function sessionModel({ id, path, name, type }: SessionRecord, kernel: Kernel): SessionModel {
  const model = { id, path, name, type, kernel: kernelModel(kernel) };
  return type === 'notebook' ? { ...model, notebook: { path, name } } : model;
}
