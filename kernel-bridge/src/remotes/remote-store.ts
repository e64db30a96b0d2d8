/** `<state>/remotes.json`: the remotes that a person has added. For this user alone: it names hosts, users and projects. */
import path from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { RemoteName, RemoteSource } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { StoredList } from '../processes/stored-list.js';

export const RemoteRecord = Type.Object({
  name: RemoteName,
  source: RemoteSource,
  environment: Type.String(),
  /** False: what is installed there is used, and nothing is put there. */
  install: Type.Boolean(),
  /** Connected when the gateway starts, and again whenever the connection is lost. */
  wanted: Type.Boolean(),
  /** Hosts as they were last known. */
  hosts: Type.Array(Type.String()),
  lastConnectedAt: Type.Union([Type.Number(), Type.Null()])
});
export type RemoteRecord = Static<typeof RemoteRecord>;

export class RemoteStore extends StoredList<typeof RemoteRecord> {
  constructor(stateDir: string, log: Logger) {
    super({ file: path.join(stateDir, 'remotes.json'), name: 'remotes', record: RemoteRecord, log });
  }

  /** Never rejects: whoever saved was told. */
  override async settled(): Promise<void> {
    await super.settled().catch(() => undefined);
  }
}
