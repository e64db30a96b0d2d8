/**
 * `<state>/remotes.json`: the remotes that a person has added. Only this user can read it, because it names hosts, users
 * and projects.
 */
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { RemoteName, RemoteSource } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { StoredList } from '@tpulab/platform/stored-list.js';
import { Value } from '@sinclair/typebox/value';

const StoredRemote = Type.Object({
  name: RemoteName,
  source: RemoteSource,
  environment: Type.String(),
  /** False: uses the existing installation there, and installs nothing. */
  install: Type.Boolean(),
  /** The remote is connected when the gateway starts, and again after each loss of the connection. */
  wanted: Type.Boolean(),
  /** Last known hosts. */
  hosts: Type.Array(Type.String()),
  lastConnectedAt: Type.Union([Type.Number(), Type.Null()]),
  /** The targets of the last successful ssh login; used while Google Cloud cannot be queried. */
  targets: Type.Optional(
    Type.Array(Type.Object({ destination: Type.String(), options: Type.Array(Type.String()) }))
  ),
  /** Packages that a person has added there, by environment, because the machine may be recreated. */
  added: Type.Optional(Type.Record(Type.String(), Type.Array(Type.String()))),
  /** On a slice: kernels use only the chips of their own host. */
  hostOnly: Type.Optional(Type.Boolean()),
  /** Missing in files of older versions. */
  sender: Type.Optional(Type.String({ pattern: '^[0-9a-f]{16}$' }))
});

export interface RemoteRecord extends Static<typeof StoredRemote> {
  /** This gateway's identifier of the remote on its hosts, where interrupted copies wait for it. */
  readonly sender: string;
}

export class RemoteStore extends StoredList<typeof StoredRemote> {
  constructor(stateDir: string, log: Logger) {
    super({ file: path.join(stateDir, 'remotes.json'), name: 'remotes', record: StoredRemote, log });
  }

  override async load(): Promise<readonly RemoteRecord[]> {
    return (await super.load()).map(record => ({ ...record, sender: record.sender ?? newSender() }));
  }

  /** Never rejects: the caller of `save` received the error. */
  override async settled(): Promise<void> {
    await super.settled().catch(() => undefined);
  }
}

/** Random, because two computers may have the same name, user and folders. */
export function newSender(): string {
  return randomBytes(8).toString('hex');
}

/** API paths that would be parsed as the name of a remote. */
const RESERVED = new Set(['candidates']);

export function isRemoteName(name: string): boolean {
  return Value.Check(RemoteName, name) && !RESERVED.has(name) && !name.includes('..');
}

/** A default name for a source, different from all used names. */
export function nameFor(source: RemoteSource, isUsed: (name: string) => boolean): string {
  const base = plain(sourceName(source));
  for (let number = 1; ; number++) {
    const name = number === 1 ? base : `${base.slice(0, 58)}-${number}`;
    if (isRemoteName(name) && !isUsed(name)) return name;
  }
}

/** A person's name for the machine. */
export function sourceName(source: RemoteSource): string {
  if (source.kind === 'colab') return `colab-${source.accelerator}`;
  return source.kind === 'gcloud' ? source.name : hostOf(source.destination);
}

function hostOf(destination: string): string {
  return destination
    .replace(/^ssh:\/\//i, '')
    .replace(/^.*@/, '')
    .replace(/^([^:]+|\[.*\]):\d+$/, '$1')
    .replace(/^\[(.*)\]$/, '$1');
}

function plain(text: string): string {
  const name = text
    .toLowerCase()
    .replace(/[^a-z0-9.-]+/g, '-')
    .replace(/\.{2,}/g, '.')
    .slice(0, 60)
    .replace(/^[.-]+|[.-]+$/g, '');
  return name === '' ? 'remote' : name;
}
