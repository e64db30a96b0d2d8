/** `<state>/remotes.json`: the remotes that a person has added. For this user alone: it names hosts, users and projects. */
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { RemoteName, RemoteSource } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { StoredList } from '../processes/stored-list.js';

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
