/** The gateway's log: all of it in `<state>/gateway.log`, what someone should see also on stderr. */
import { chmodSync, renameSync, statSync } from 'node:fs';
import path from 'node:path';
import { destination, type Level, type Logger, multistream, pino } from 'pino';
import { SECRET_FIELDS } from './redaction.js';

export const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const;

/** At a start, a log larger than this becomes gateway.log.1, which replaces an older one. */
const ROTATE_BYTES = 16 * 1024 * 1024;

export function openLog(stateDir: string, level: Level): Logger {
  const file = path.join(stateDir, 'gateway.log');
  rotate(file);
  // Written at once: the lines before a crash are the ones that matter.
  const log = destination({ dest: file, mode: 0o600, sync: true });
  // A full disk must not end a gateway because its log cannot be written.
  log.on('error', () => undefined);
  chmodSync(file, 0o600);
  return pino(
    { level, redact: { paths: SECRET_FIELDS, censor: '[secret]' }, base: { pid: process.pid } },
    multistream([
      { stream: log, level },
      { stream: process.stderr, level: 'error' }
    ])
  );
}

function rotate(file: string): void {
  try {
    if (statSync(file).size > ROTATE_BYTES) renameSync(file, `${file}.1`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}
