/** Each text of the page is translated here, in the one translation domain of the extension. English needs no language pack. */
import { nullTranslator, type TranslationBundle } from '@jupyterlab/translation';

export const trans: TranslationBundle = nullTranslator.load('jupyterlab_tpulab');

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Unix milliseconds as a time of day. */
export function timeText(at: number): string {
  return new Date(at).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hour12: false });
}
