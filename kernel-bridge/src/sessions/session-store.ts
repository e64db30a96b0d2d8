/** All sessions, and Jupyter's rules for them. They are stored in sessions.json, so that a new gateway has them too. */
import { randomUUID } from 'node:crypto';
import path from 'node:path';
import type { Logger } from 'pino';
import { bridgeError } from '@tpulab/platform/errors.js';
import type { Kernel } from '../kernels/kernel.js';
import { KernelDocuments } from '../kernels/kernel-documents.js';
import { isKernelId, type KernelRegistry } from '../kernels/kernel-registry.js';
import { StoredList } from '@tpulab/platform/stored-list.js';
import { type Static, Type } from '@sinclair/typebox';
import { KernelModel, kernelModel } from '../kernels/kernel-model.js';
import { dropOldest } from '@tpulab/platform/bounded.js';

export interface KernelChoice {
  readonly id?: string | null | undefined;
  readonly name?: string | null | undefined;
}

interface NewSession {
  readonly path: string;
  readonly type: string;
  readonly name?: string | null | undefined;
  readonly kernel?: KernelChoice | null | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
}

interface SessionChange {
  readonly path?: string | undefined;
  readonly name?: string | null | undefined;
  readonly type?: string | undefined;
  readonly kernel?: KernelChoice | null | undefined;
}

/** Limit of sessions whose kernel ended first, which are stored to answer 410 to a client that deletes them later. */
const MAX_ENDED = 1000;

const AT_RISK = 'Sessions cannot be saved: after a server restart, notebooks may not find their kernel.';
const DOCUMENT_AT_RISK =
  'The notebook of this kernel cannot be recorded: after the kernel has ended, its outputs are found only by its id.';

export class SessionStore implements AsyncDisposable {
  readonly #file: StoredList<typeof SessionRecord>;
  readonly #sessions = new Map<string, SessionRecord>();
  readonly #ended = new Set<string>();
  /**
   * Sessions with kernels of other machines that share the state folder; they are hidden from clients here, but not
   * deleted.
   */
  readonly #otherSessions: SessionRecord[] = [];
  readonly #documents = new Map<Kernel, KernelDocuments>();
  /** Paths for which a session is being created; a second request waits for the first. */
  readonly #creating = new Map<string, Promise<SessionRecord>>();
  readonly #listening: Disposable;

  constructor(
    private readonly registry: KernelRegistry,
    file: string,
    private readonly log: Logger
  ) {
    this.#file = new StoredList({
      file,
      name: 'sessions',
      record: SessionRecord,
      log,
      onFault: error => this.#saved(error)
    });
    this.#listening = registry.listen({ removed: kernel => this.#kernelRemoved(kernel) });
  }

  /** Restores the sessions of an earlier gateway whose kernels were found again. */
  async restore(): Promise<void> {
    for (const record of await this.#file.load()) {
      if (this.registry.find(record.kernelId)) this.#sessions.set(record.id, record);
      else if (await this.registry.isElsewhere(record.kernelId)) this.#otherSessions.push(record);
      else this.#delete(record.id);
    }
  }

  list(): SessionModel[] {
    return [...this.#sessions.values()].map(record => this.#model(record));
  }

  get(id: string): SessionModel {
    return this.#model(this.#find(id));
  }

  /** The session of this path, created if there is none. */
  async create(request: NewSession): Promise<SessionModel> {
    const existing = this.#byPath(request.path);
    if (existing) return this.#model(existing);
    let creating = this.#creating.get(request.path);
    if (!creating) {
      creating = this.#create(request).finally(() => this.#creating.delete(request.path));
      this.#creating.set(request.path, creating);
    }
    return this.#model(await creating);
  }

  async #create(request: NewSession): Promise<SessionRecord> {
    const kernel = await this.#chooseKernel(request);
    const record: SessionRecord = {
      id: randomUUID(),
      path: request.path,
      name: request.name ?? '',
      type: request.type,
      kernelId: kernel.id
    };
    this.#sessions.set(record.id, record);
    await this.#save();
    await this.#note(kernel, record.path);
    return record;
  }

  /** Changes a session. A replaced kernel is shut down, unless another document still uses it. */
  async change(id: string, change: SessionChange): Promise<SessionModel> {
    const before = this.#find(id);
    const choice = change.kernel ?? {};
    const namesKernel = (choice.id ?? choice.name ?? null) !== null;
    const kernel = namesKernel ? await this.#chooseOther(choice, change.path ?? before.path) : null;
    // Starting a kernel takes a while, in which the session may have been changed or deleted.
    const current = this.#sessions.get(id);
    if (!current) {
      // Without a session the kernel would keep running.
      if (kernel && (choice.id ?? null) === null) await this.#release(kernel.id);
      throw bridgeError('session_not_found', id);
    }
    const after: SessionRecord = {
      ...current,
      path: change.path ?? current.path,
      name: change.name ?? current.name,
      type: change.type ?? current.type,
      kernelId: kernel?.id ?? current.kernelId
    };
    this.#sessions.set(id, after);
    await this.#save();
    const running = this.registry.find(after.kernelId);
    if (running) await this.#note(running, after.path);
    if (after.kernelId !== current.kernelId) await this.#release(current.kernelId);
    return this.#model(after);
  }

  /** Deletes the session and shuts its kernel down, unless another document still uses it. */
  async delete(id: string): Promise<void> {
    if (this.#ended.delete(id)) throw bridgeError('session_gone', id);
    const record = this.#find(id);
    this.#sessions.delete(id);
    await this.#save();
    await this.#release(record.kernelId);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listening[Symbol.dispose]();
    const documents = [...this.#documents.values()].map(each => each[Symbol.asyncDispose]());
    await Promise.all([this.#file.settled(), ...documents]);
  }

  /**
   * Starts a kernel that does not exist (any more), under the client's chosen id if that is valid. A notebook may name a
   * kernel that has ended: then its kernelspec name counts.
   */
  async #chooseKernel({ kernel, path: documentPath, env }: NewSession): Promise<Kernel> {
    const { id = null, name = null } = kernel ?? {};
    const existing = id === null ? undefined : this.registry.find(id);
    if (existing) return existing;
    const requested = id !== null && isKernelId(id) ? id.toLowerCase() : undefined;
    // Another machine's kernel continues on that machine; the notebook gets its own kernel here.
    const isForeign = requested !== undefined && (await this.registry.isElsewhere(requested));
    const kernelId = isForeign ? undefined : requested;
    if (id !== null && requested === undefined && name === null) throw bridgeError('kernel_not_found', id);
    return this.registry.start({ name, path: path.posix.dirname(documentPath), env, kernelId });
  }

  /** For a change of kernel, the id has priority, and a wrong one must not start anything. */
  async #chooseOther({ id = null, name }: KernelChoice, documentPath: string): Promise<Kernel> {
    if (id === null) return this.registry.start({ name, path: path.posix.dirname(documentPath) });
    const kernel = this.registry.find(id);
    if (!kernel) throw bridgeError('kernel_choice_invalid', id);
    return kernel;
  }

  async #release(kernelId: string): Promise<void> {
    const isShared = [...this.#sessions.values()].some(session => session.kernelId === kernelId);
    if (isShared || !this.registry.find(kernelId)) return;
    await this.registry.remove(kernelId);
  }

  #kernelRemoved(kernel: Kernel): void {
    let changed = false;
    for (const [id, record] of this.#sessions) {
      if (record.kernelId !== kernel.id) continue;
      this.#sessions.delete(id);
      this.#delete(id);
      changed = true;
    }
    if (changed) void this.#save();
    void this.#documents.get(kernel)?.[Symbol.asyncDispose]();
    this.#documents.delete(kernel);
  }

  #delete(id: string): void {
    this.#ended.add(id);
    dropOldest(this.#ended, MAX_ENDED);
  }

  #byPath(documentPath: string): SessionRecord | undefined {
    return [...this.#sessions.values()].find(session => session.path === documentPath);
  }

  #find(id: string): SessionRecord {
    const record = this.#sessions.get(id);
    if (!record) throw bridgeError('session_not_found', id);
    return record;
  }

  #model(record: SessionRecord): SessionModel {
    return sessionModel(record, this.registry.get(record.kernelId));
  }

  /** Only helps to find the kernel's outputs later, so a full disk must not block users. */
  async #note(kernel: Kernel, documentPath: string): Promise<void> {
    const onFault = (error: Error | null): void => kernel.unsaved(DOCUMENT_AT_RISK, error);
    const documents = this.#documents.get(kernel) ?? new KernelDocuments(kernel.directory, this.log, onFault);
    this.#documents.set(kernel, documents);
    await documents.note(documentPath).catch((error: unknown) => {
      this.log.warn({ kernelId: kernel.id, err: error }, 'the document of a kernel could not be noted');
    });
  }

  /** If the disk refuses, users continue to work; the kernels report the data at risk until it has been saved. */
  async #save(): Promise<void> {
    await this.#file
      .save([...this.#otherSessions, ...this.#sessions.values()])
      .catch((error: unknown) => this.#saved(error as Error));
  }

  #saved(error: Error | null): void {
    for (const kernel of this.registry.list()) kernel.unsaved(AT_RISK, error);
  }
}

/** Old clients wrap the path: `{notebook: {path}}`. All other fields stay unchanged. */
export function unwrapNotebook<T extends { path?: string; type?: string }>(
  body: T & { notebook?: { path?: string; name?: string } | undefined }
): T {
  if (body.notebook === undefined) return body;
  const documentPath = body.notebook.path ?? body.notebook.name;
  return documentPath === undefined ? body : { ...body, path: documentPath, type: 'notebook' };
}

export function requireField(value: string | undefined, field: string): string {
  if (value === undefined) throw bridgeError('invalid_request', `Missing field in JSON data: ${field}`);
  return value;
}

/** A session: a document's link to a kernel. */
const SessionRecord = Type.Object({
  id: Type.String(),
  path: Type.String(),
  name: Type.String(),
  type: Type.String(),
  kernelId: Type.String()
});
type SessionRecord = Static<typeof SessionRecord>;

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

function sessionModel({ id, path, name, type }: SessionRecord, kernel: Kernel): SessionModel {
  const model = { id, path, name, type, kernel: kernelModel(kernel) };
  return type === 'notebook' ? { ...model, notebook: { path, name } } : model;
}
