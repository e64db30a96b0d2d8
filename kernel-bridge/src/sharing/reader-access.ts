/**
 * What the holder of a link may do who may read one notebook: get its file, see what its kernels do, and hear their events. The list
 * is of what is allowed; a route that is added later is closed until it is put here.
 */
import type { IncomingMessage } from 'node:http';
import { HEALTH, readsOf } from '../http/access-hooks.js';
import type { App } from '../http/app.js';
import { pathOf } from '../http/authentication.js';
import { kernelModel } from '../kernels/kernel-model.js';
import type { KernelRegistry } from '../kernels/kernel-registry.js';
import type { KernelSpec } from '../kernels/kernelspec.js';
import type { KernelSpecCatalog } from '../kernels/kernelspec-catalog.js';
import type { SessionStore } from '../sessions/session-store.js';

const FILES = '/bridge/v1/files/';
const KERNEL = /^\/api\/kernels\/([^/]+)(\/channels)?$/;
const TOLD = /^\/bridge\/v1\/kernels\/([^/]+)\/(outputs|journal)$/;
const EVENTS = '/bridge/v1/events';

/** The lists that a page asks for. A reader gets what is of its notebook in them. */
type Answer = (notebook: string) => object | Promise<object>;

export class ReaderAccess {
  readonly #sessions: SessionStore;
  readonly #lists: ReadonlyMap<string, Answer>;

  constructor(sessions: SessionStore, registry: KernelRegistry, specs: KernelSpecCatalog) {
    this.#sessions = sessions;
    this.#lists = new Map<string, Answer>([
      ['/api/sessions', notebook => sessions.list().filter(({ path }) => path === notebook)],
      [
        '/api/kernels',
        notebook =>
          registry
            .list()
            .filter(({ id }) => this.isKernelOf(notebook, id))
            .map(kernelModel)
      ],
      // A page shows the name and the language of the kernel. How it is started is no business of somebody who may start nothing.
      ['/api/kernelspecs', async () => namesOnly([...(await specs.list()).values()])],
      ['/bridge/v1/remotes', () => ({ remotes: [] })]
    ]);
  }

  /** Whether the notebook has a session with this kernel now. */
  readonly isKernelOf = (notebook: string, kernelId: string): boolean =>
    this.#sessions.list().some(({ path, kernel }) => path === notebook && kernel.id === kernelId);

  readonly mayRead = (notebook: string, { method, url = '' }: IncomingMessage): boolean => {
    if (method !== 'GET' && method !== 'HEAD') return false;
    const path = pathOf(url);
    if (path === HEALTH || path === EVENTS || this.#lists.has(path)) return true;
    if (path.startsWith(FILES)) return decoded(path.slice(FILES.length)) === notebook;
    const kernelId = decoded((KERNEL.exec(path) ?? TOLD.exec(path))?.[1] ?? '');
    return kernelId !== null && kernelId !== '' && this.isKernelOf(notebook, kernelId);
  };

  /** Answers a reader in place of the routes of the lists. */
  addTo(app: App): void {
    app.addHook('preHandler', async (request, reply) => {
      const notebook = readsOf(request.raw);
      const list = notebook === null ? undefined : this.#lists.get(pathOf(request.url));
      return notebook === null || list === undefined ? undefined : reply.send(await list(notebook));
    });
  }
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
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
