/** `<state>/remotes.json`: the remotes that a person has added. For this user alone: it names hosts, users and projects. */
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { RemoteName, RemoteSource } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { StoredList } from '../platform/stored-list.js';
import { Value } from '@sinclair/typebox/value';

const StoredRemote = Type.Object({
  name: RemoteName,
  source: RemoteSource,
  environment: Type.String(),
  /** False: what is installed there is used, and nothing is put there. */
  install: Type.Boolean(),
  /** Connected when the gateway starts, and again whenever the connection is lost. */
  wanted: Type.Boolean(),
  /** Hosts as they were last known. */
  hosts: Type.Array(Type.String()),
  lastConnectedAt: Type.Union([Type.Number(), Type.Null()]),
  /** How ssh last got through to the hosts; of use while Google Cloud cannot be asked. */
  targets: Type.Optional(
    Type.Array(Type.Object({ destination: Type.String(), options: Type.Array(Type.String()) }))
  ),
  /** What a person has added there, by environment: the machine may be created again. */
  added: Type.Optional(Type.Record(Type.String(), Type.Array(Type.String()))),
  /** Of a slice: kernels use the chips of their own host alone. */
  hostOnly: Type.Optional(Type.Boolean()),
  /** Absent in files of older versions. */
  sender: Type.Optional(Type.String({ pattern: '^[0-9a-f]{16}$' }))
});

export interface RemoteRecord extends Static<typeof StoredRemote> {
  /** Name of this remote of this gateway on its hosts, where copies that broke off wait for it. */
  readonly sender: string;
}

export class RemoteStore extends StoredList<typeof StoredRemote> {
  constructor(stateDir: string, log: Logger) {
    super({ file: path.join(stateDir, 'remotes.json'), name: 'remotes', record: StoredRemote, log });
  }

  override async load(): Promise<readonly RemoteRecord[]> {
    return (await super.load()).map(record => ({ ...record, sender: record.sender ?? newSender() }));
  }

  /** Never rejects: whoever saved was told. */
  override async settled(): Promise<void> {
    await super.settled().catch(() => undefined);
  }
}

/** Of chance, because two computers may have the same name, user and folders. */
export function newSender(): string {
  return randomBytes(8).toString('hex');
}

/** Paths of the API that would be taken for a remote. */
const RESERVED = new Set(['candidates']);

export function isRemoteName(name: string): boolean {
  return Value.Check(RemoteName, name) && !RESERVED.has(name) && !name.includes('..');
}

/** A name for a source that was given none, unlike those that are taken. */
export function nameFor(source: RemoteSource, isUsed: (name: string) => boolean): string {
  const base = plain(sourceName(source));
  for (let number = 1; ; number++) {
    const name = number === 1 ? base : `${base.slice(0, 58)}-${number}`;
    if (isRemoteName(name) && !isUsed(name)) return name;
  }
}

/** What a person calls the machine. */
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
