/**
 * The log of a keeper: one JSON object a line, as pino writes them for the gateway. Pino itself would be half of what a keeper has
 * to load, and of the memory that each of them takes.
 */
import { writeSync } from 'node:fs';

/** What a keeper's parts say; a logger of pino will do. */
export type KeeperLog = Readonly<Record<'debug' | Level, Say>>;

interface Say {
  (fields: object, message: string): void;
  (message: string): void;
}

/** Pino's numbers. What is below is not written. */
const LEVELS = { info: 30, warn: 40, error: 50, fatal: 60 } as const;
type Level = keyof typeof LEVELS;

const MAX_CAUSES = 5;

/** Writes to the descriptor at once, so that the last words before an end are there. */
export function keeperLog(fd: number): KeeperLog {
  const at =
    (level: Level): Say =>
    (first: object | string, message?: string) => {
      const fields = typeof first === 'string' ? {} : first;
      const head = { level: LEVELS[level], time: Date.now(), pid: process.pid };
      const msg = typeof first === 'string' ? first : message;
      try {
        writeSync(fd, `${lineOf({ ...head, ...fields, msg })}\n`);
      } catch {
        // A full disk must not end a keeper because its log cannot be written.
      }
    };
  return {
    debug: () => undefined,
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    fatal: at('fatal')
  };
}

function lineOf(entry: Readonly<Record<string, unknown>>): string {
  return JSON.stringify(entry, (_key, value: unknown) => {
    if (value instanceof Error) return describe(value, MAX_CAUSES);
    return typeof value === 'bigint' ? Number(value) : value;
  });
}

/** An error has its words where JSON does not look. */
function describe(error: Error, causes: number): object {
  const { name, message, stack, cause } = error;
  return {
    ...Object.fromEntries(Object.entries(error)),
    type: name,
    message,
    stack,
    cause: cause instanceof Error && causes > 0 ? describe(cause, causes - 1) : undefined
  };
}
