/** Processes that hold the chips: `GET /bridge/v1/devices/holders`, `POST …/holders/PID/end`, `DELETE /bridge/v1/devices/lock`. */
import { type Static, Type } from '@sinclair/typebox';

const Text = Type.Union([Type.String(), Type.Null()]);

/** The kernel to which a process belongs, if it is a kernel of this gateway. */
export const HolderKernel = Type.Object({
  id: Type.String(),
  name: Type.String({ description: 'of its kernelspec' }),
  executionState: Type.String(),
  idleS: Type.Number({ minimum: 0, description: 'seconds since its last activity' }),
  connections: Type.Integer({ minimum: 0 }),
  documents: Type.Array(Type.String(), { description: 'paths of the notebooks that run on it' })
});
export type HolderKernel = Static<typeof HolderKernel>;

export const Holder = Type.Object({
  pid: Type.Integer({ minimum: 1 }),
  user: Text,
  command: Text,
  nodes: Type.Array(Type.String(), { description: 'device files that it has open' }),
  holdsLock: Type.Boolean({ description: "has libtpu's lock file" }),
  kernelId: Type.Union([Type.String(), Type.Null()], {
    description: 'kernel of a TPULab server, even of another one'
  }),
  kernel: Type.Union([HolderKernel, Type.Null()], {
    description: 'when it is a kernel of this gateway, which can end it'
  })
});
export type Holder = Static<typeof Holder>;

/** libtpu allows one process at a time; it locks this file for as long as it runs. */
export const LibtpuLock = Type.Object({
  path: Type.String(),
  state: Type.Union(
    [Type.Literal('none'), Type.Literal('held'), Type.Literal('left'), Type.Literal('unknown')],
    {
      description:
        'none: no file; held: a process has it; left: its owner has ended; unknown: processes cannot be seen'
    }
  ),
  owner: Type.Union([Type.String(), Type.Null()], { description: 'user to whom the file belongs' }),
  pids: Type.Array(Type.Integer({ minimum: 1 }), { description: 'that hold it' })
});
export type LibtpuLock = Static<typeof LibtpuLock>;

export const HoldersPage = Type.Object({
  chips: Type.Integer({ minimum: 0 }),
  holders: Type.Array(Holder),
  lock: LibtpuLock
});
export type HoldersPage = Static<typeof HoldersPage>;
