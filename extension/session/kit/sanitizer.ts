/** Replaces JupyterLab's sanitizer, which is loaded with the first output or Markdown that has markup: 40 kB less in the first load. */
import type { IRenderMime } from '@jupyterlab/rendermime';

let loaded: IRenderMime.ISanitizer | null = null;

export async function loadSanitizer(): Promise<void> {
  if (loaded !== null) return;
  const { Sanitizer: Loaded } = await import('@jupyterlab/apputils/lib/sanitizer');
  loaded ??= new Loaded();
}

export class Sanitizer implements IRenderMime.ISanitizer {
  readonly allowNamedProperties = false;
  readonly allowCommandLinker = true;

  sanitize(dirty: string, options?: IRenderMime.ISanitizerOptions): string {
    // Never returns the unsanitized text: code that shows markup awaits `loadSanitizer`.
    if (loaded === null) throw new Error('The sanitizer is not loaded.');
    return loaded.sanitize(dirty, options);
  }

  getAutolink(): boolean {
    return true;
  }
}
