/**
 * Implements `MayDo`, the access check for restricted tokens, for the notebooks and kernels of this gateway, and creates
 * the view of a read-only holder.
 */
import path from 'node:path';
import type { Logger } from 'pino';
import { actorOf } from '../http/access-hooks.js';
import type { App } from '../http/app.js';
import type { ClientToken } from '../http/client-tokens.js';
import { bridgeError } from '@tpulab/platform/errors.js';
import { type Action, includes, isNamed, type MayDo } from '../http/rights.js';
import type { TokenStore } from '../http/token-store.js';
import { documentsOfKernel } from '../kernels/kernel-documents.js';
import type { Kernel } from '../kernels/kernel.js';
import type { KernelRegistry } from '../kernels/kernel-registry.js';
import type { KernelSpec, KernelSpecCatalog } from '../kernels/kernelspec-catalog.js';
import type { Execution } from '../outputs/execution.js';
import type { OutputsOfKernels } from '../outputs/index.js';
import type { SessionStore } from '../sessions/session-store.js';
import type { EventFilter } from '../telemetry/readable-events.js';
import {
  hasCell,
  isSameNotebook,
  isVisible,
  NotebookView,
  type SavedNotebook,
  SavedNotebooks,
  type Scope
} from './notebook-view.js';

interface NarrowedAccessOptions {
  readonly rootDir: string;
  readonly sessions: SessionStore;
  readonly registry: KernelRegistry;
  readonly specs: KernelSpecCatalog;
  readonly outputs: OutputsOfKernels;
  readonly tokens: TokenStore;
  readonly log: Logger;
}

/** How long the list of a kernel's earlier documents is cached for events. */
const PAST_MS = 2_000;

export class NarrowedAccess {
  readonly #notebooks = new SavedNotebooks();
  readonly #pastDocuments = new WeakMap<
    Kernel,
    { readonly paths: readonly string[] | null; readonly readAt: number }
  >();

  constructor(private readonly options: NarrowedAccessOptions) {}

  readonly mayDo: MayDo = (actor, action, resource) => {
    const { rights, share } = actor;
    if (rights === null) return true;
    if (!includes(rights.level, action)) return false;
    switch (resource.kind) {
      case 'gateway': {
        const isNarrow = share ?? rights.notebooks ?? rights.kernels;
        return action === 'read' || isNarrow === undefined;
      }
      case 'deferred':
        return true;
      case 'notebook':
        return this.#mayUse(actor, resource.path);
      case 'kernel':
        return this.#mayUseKernel(actor, action, resource.id);
      case 'remote':
        return (
          share === undefined &&
          rights.notebooks === undefined &&
          rights.kernels === undefined &&
          isNamed(rights.remotes, resource.name)
        );
    }
  };

  #mayUse({ rights, share }: Pick<ClientToken, 'rights' | 'share'>, requested: string): boolean {
    // The target of a path through a link is not what the path says.
    if (
      requested === '' ||
      requested.startsWith('/') ||
      path.posix.normalize(requested) !== requested ||
      requested.startsWith('..')
    )
      return false;
    if (share === undefined) return isNamed(rights?.notebooks, requested);
    if (share.path !== requested) return false;
    if (share.stamp === null) return true;
    const saved = this.#saved(requested);
    return saved !== null && isSameNotebook(share.stamp, saved.stamp);
  }

  /**
   * For reading, one of its notebooks is enough, because the view shows no other. Running code gives access to the whole kernel.
   */
  #mayUseKernel(actor: Pick<ClientToken, 'rights' | 'share'>, action: Action, id: string): boolean {
    const { rights, share } = actor;
    if (share === undefined && rights?.kernels !== undefined && isNamed(rights.kernels, id)) return true;
    const isFree = share === undefined && rights?.notebooks === undefined && rights?.kernels === undefined;
    if (isFree) return true;
    if (share === undefined && rights?.notebooks === undefined) return false;
    const paths = this.#pathsOf(id);
    const uses = (each: string): boolean => this.#mayUse(actor, each);
    return action === 'read' ? paths.some(uses) : paths.length > 0 && paths.every(uses);
  }

  #pathsOf(kernelId: string): string[] {
    return this.options.sessions.list().flatMap(({ path, kernel }) => (kernel.id === kernelId ? path : []));
  }

  #saved(notebook: string): SavedNotebook | null {
    return this.#notebooks.read(path.join(this.options.rootDir, notebook));
  }

  /** The view of a kernel for a read-only token, for one client. @throws BridgeError `read_only` */
  async view(actor: ClientToken, kernelId: string): Promise<NotebookView> {
    const { outputs } = this.options;
    const scope = await this.#scopeOf(actor, kernelId);
    const executions = await outputs.executions(kernelId);
    return new NotebookView({ ...executions, scope });
  }

  /** Filters the executions of a kernel for an answer to the holder. @throws BridgeError `read_only` */
  async visible(actor: ClientToken, kernelId: string): Promise<(execution: Execution) => boolean> {
    const scope = await this.#scopeOf(actor, kernelId);
    const { executions } = await this.options.outputs.executions(kernelId);
    const present = new Set(executions.map(({ msgId }) => msgId));
    return execution => {
      const now = scope();
      return now !== null && present.has(execution.msgId) && isVisible(now, execution);
    };
  }

  async #scopeOf(actor: ClientToken, kernelId: string): Promise<() => Scope | null> {
    const kernel = this.options.registry.find(kernelId);
    if (kernel === undefined) throw bridgeError('kernel_not_found', kernelId);
    if (!this.mayDo(actor, 'read', { kind: 'kernel', id: kernelId })) throw bridgeError('read_only');
    const past = await documentsOfKernel(kernel.directory);
    return () => this.#scope(actor, kernelId, past);
  }

  #scope(actor: ClientToken, kernelId: string, past: readonly string[]): Scope | null {
    const now = this.#pathsOf(kernelId);
    const isOwn = (each: string): boolean => this.#mayUse(actor, each);
    const own = now.filter(isOwn);
    const isFree = actor.share === undefined && actor.rights?.notebooks === undefined;
    if (own.length === 0 && !isFree) return null;
    const others = [...new Set([...now, ...past])].filter(each => !isOwn(each));
    const cells = others.flatMap(each => [...(this.#saved(each)?.cellIds ?? [])]);
    return {
      own: own.flatMap(each => this.#saved(each) ?? []),
      others: others.length === 0 ? null : new Set(cells),
      sinceMs: actor.sinceMs
    };
  }

  /** Documents that ran on a kernel; null until they have been read, then possibly a moment old. */
  #pastDocumentsOf(kernelId: string): readonly string[] | null {
    const kernel = this.options.registry.find(kernelId);
    if (kernel === undefined) return null;
    const cached = this.#pastDocuments.get(kernel);
    const now = performance.now();
    if (cached === undefined || now - cached.readAt > PAST_MS) {
      const paths = cached?.paths ?? null;
      this.#pastDocuments.set(kernel, { paths, readAt: now });
      void documentsOfKernel(kernel.directory).then(read =>
        this.#pastDocuments.set(kernel, { paths: read, readAt: now })
      );
    }
    return this.#pastDocuments.get(kernel)?.paths ?? null;
  }

  /** The events that the holder of a restricted token receives. */
  readonly events = (actor: ClientToken): EventFilter => ({
    kernel: id => this.mayDo(actor, 'read', { kind: 'kernel', id }),
    cells:
      actor.rights?.level === 'read'
        ? {
            sinceMs: actor.sinceMs,
            shows: (kernelId, cellId) => {
              const past = this.#pastDocumentsOf(kernelId);
              const scope = past && this.#scope(actor, kernelId, past);
              return scope !== null && hasCell(scope, cellId);
            }
          }
        : null
  });

  /** Adds the checks for a holder's page, and follows shared notebooks when they are replaced. */
  addTo(app: App): void {
    const { specs, tokens, log } = this.options;
    app.addHook('preHandler', async (request, reply) => {
      const actor = actorOf(request.raw);
      if (actor === null) return undefined;
      const { url } = request.routeOptions;
      // A holder who may not start kernels does not see how they are started.
      if (url === '/api/kernelspecs' && actor.rights?.level === 'read')
        return reply.send(namesOnly([...(await specs.list()).values()]));
      return url === '/bridge/v1/machines' ? reply.send({ remotes: [] }) : undefined;
    });
    app.addHook('onSend', async (request, reply) => {
      if (
        request.method !== 'PUT' ||
        request.routeOptions.url !== '/bridge/v1/files/*' ||
        reply.statusCode !== 200
      )
        return;
      const { '*': saved } = request.params as { '*': string };
      const stamp = this.#saved(saved)?.stamp;
      const isShared = tokens.list().some(({ reads, stamp: old }) => reads === saved && old !== undefined);
      if (!isShared || stamp === undefined) return;
      await tokens
        .restamp(saved, stamp)
        .catch((error: unknown) =>
          log.warn({ err: error }, 'links to a notebook that was saved end when it has no cell of before')
        );
    });
  }

  /** The stamp that distinguishes the currently shared notebook from another one at its path. */
  stampOf(notebook: string): SavedNotebook['stamp'] | undefined {
    return this.#saved(notebook)?.stamp;
  }
}

function namesOnly(specs: readonly KernelSpec[]): object {
  const shown = specs.map(({ name, displayName, language }) => ({
    name,
    spec: {
      ...{ argv: [], env: {}, display_name: displayName, language },
      ...{ interrupt_mode: 'signal', metadata: {}, kernel_protocol_version: '' }
    },
    resources: {}
  }));
  return {
    default: shown[0]?.name ?? '',
    kernelspecs: Object.fromEntries(shown.map(spec => [spec.name, spec]))
  };
}
