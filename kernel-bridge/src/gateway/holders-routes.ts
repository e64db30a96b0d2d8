/**
 * Processes that hold the chips (`/bridge/v1/devices/holders`), and how to free them: our own kernels are shut down, others are
 * named.
 */
import { Type } from '@sinclair/typebox';
import { type Holder, type HolderKernel, HoldersPage, LibtpuLock } from '@tpulab/protocol';
import type { ChipHolders, FoundHolder } from '../devices/index.js';
import { bridgeError } from '@tpulab/platform/errors.js';
import type { KernelRegistry } from '../kernels/kernel-registry.js';
import type { SessionStore } from '../sessions/session-store.js';
import { failure, route } from '../http/api-description.js';
import type { App } from '../http/app.js';

export interface HoldersOptions {
  readonly holders: Pick<ChipHolders, 'find' | 'lock' | 'removeLock'>;
  readonly registry: Pick<KernelRegistry, 'find' | 'remove'>;
  readonly sessions: Pick<SessionStore, 'list'>;
}

const Params = Type.Object({ pid: Type.Integer({ minimum: 1 }) });

export function addHoldersRoutes(app: App, options: HoldersOptions): void {
  const { holders, registry } = options;

  app.get(
    '/bridge/v1/devices/holders',
    route('Processes that hold the chips, with their kernel and notebook', { 200: HoldersPage }),
    async (): Promise<HoldersPage> => {
      const found = await holders.find();
      return { ...found, holders: found.holders.map(holder => withKernel(holder, options)) };
    }
  );

  app.post(
    '/bridge/v1/devices/holders/:pid/end',
    route(
      'Shut down the kernel that holds the chips',
      {
        204: Type.Null(),
        404: failure('This process holds no chip.'),
        409: failure('It is not a kernel of this server.')
      },
      {
        description: 'Only kernels of this server; for any other process the response names its owner.',
        params: Params
      }
    ),
    async (request, reply) => {
      const { pid } = request.params;
      const holder = (await holders.find()).holders.find(each => each.pid === pid);
      if (holder === undefined) throw bridgeError('holder_not_found', pid);
      const { kernel } = withKernel(holder, options);
      if (kernel === null) throw bridgeError('holder_not_ours', foreignHolderText(holder));
      await registry.remove(kernel.id);
      return reply.code(204).send(null);
    }
  );

  app.delete(
    '/bridge/v1/devices/lock',
    route('Remove the lock file of libtpu if its owner has ended', {
      200: LibtpuLock,
      409: failure('A process holds it, or this user may not remove it.')
    }),
    async (): Promise<LibtpuLock> => {
      const lock = await holders.lock();
      if (lock.state === 'none') return lock;
      if (lock.state !== 'left') throw bridgeError('lock_not_removable', lockReason(lock));
      try {
        await holders.removeLock();
      } catch (cause) {
        throw bridgeError(
          'lock_not_removable',
          `${lock.path} belongs to ${lock.owner ?? 'another user'}, and is not in use; remove it with "sudo rm ${lock.path}".`,
          cause
        );
      }
      return holders.lock();
    }
  );
}

function withKernel(holder: FoundHolder, { registry, sessions }: HoldersOptions): Holder {
  const kernel = holder.kernelId === null ? undefined : registry.find(holder.kernelId);
  if (kernel === undefined) return { ...holder, kernel: null };
  const { specName, executionState, lastActivity } = kernel.snapshot;
  const described: HolderKernel = {
    id: kernel.id,
    name: specName,
    executionState,
    idleS:
      executionState === 'busy' ? 0 : Math.max(0, (Date.now() - new Date(lastActivity).getTime()) / 1000),
    connections: kernel.connections,
    documents: sessions
      .list()
      .filter(session => session.kernel.id === kernel.id)
      .map(({ path }) => path)
  };
  return { ...holder, kernel: described };
}

function foreignHolderText({ pid, user, command, kernelId }: FoundHolder): string {
  const who = `Process ${pid} (${command ?? 'unknown'}) belongs to ${user ?? 'an unknown user'}`;
  if (kernelId !== null)
    return `${who} and is a kernel of another server (${kernelId}); shut it down there, or end it with "kill ${pid}".`;
  return `${who} and is not a kernel of this server; ask its owner, or end it with "kill ${pid}" if it is yours.`;
}

function lockReason({ path, state, pids }: LibtpuLock): string {
  return state === 'held'
    ? `${path} is held by process ${pids.join(', ')}; ending that process releases the lock.`
    : `This user cannot see who holds ${path}; remove it only if you know that no process uses the chips.`;
}
