/** sessions.json: which document belongs to which kernel, so that a new gateway knows it too. */
import type { Logger } from 'pino';
import { StoredList } from '../processes/stored-list.js';
import { SessionRecord } from './session.js';

export class SessionFile extends StoredList<typeof SessionRecord> {
  constructor(file: string, log: Logger) {
    super({ file, name: 'sessions', record: SessionRecord, log });
  }
}
