export { trans } from '../src/text/trans.js';

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Unix milliseconds as a time of day. */
export function timeText(at: number): string {
  return new Date(at).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hour12: false });
}
