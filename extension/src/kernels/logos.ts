/**
 * Logos of the bridge's kernelspecs as data URLs. An `<img>` cannot send the token, and without it the bridge
 * answers 403.
 */
import { ServerConnection } from '@jupyterlab/services';

type Resources = Readonly<Record<string, string>>;

/** Larger images are not logos, and every notebook toolbar would carry them. */
const MAX_BYTES = 256 * 1024;

export class LogoLoader {
  /** Loads logos that were not requested yet; true when a new one was loaded. Never rejects. */
  async load(all: readonly Resources[], settings: ServerConnection.ISettings): Promise<boolean> {
    const paths = new Set(all.flatMap(resources => logoPaths(resources).map(([, path]) => path)));
    const missing = [...paths].filter(path => !this._requested.has(path));
    missing.forEach(path => this._requested.add(path));
    const results = await Promise.allSettled(missing.map(path => this.loadOne(path, settings)));
    return results.some(result => result.status === 'fulfilled');
  }

  /** The resources with each logo as a data URL; a logo that is not loaded (yet) is omitted. */
  known(resources: Resources): Record<string, string> {
    return Object.fromEntries(
      logoPaths(resources).flatMap(([key, path]) => {
        const url = this._loaded.get(path);
        return url === undefined ? [] : [[key, url]];
      })
    );
  }

  private async loadOne(path: string, settings: ServerConnection.ISettings): Promise<void> {
    const base = new URL(settings.baseUrl);
    const url = new URL(path, base);
    if (url.origin !== base.origin || !url.href.startsWith(base.href)) {
      throw new Error('A logo outside the TPULab server is not loaded.');
    }
    const response = await ServerConnection.makeRequest(url.href, {}, settings);
    const blob = await response.blob();
    if (response.status !== 200 || !blob.type.startsWith('image/') || blob.size > MAX_BYTES) {
      throw new Error('Not a logo.');
    }
    const bytes = new Uint8Array(await blob.arrayBuffer());
    this._loaded.set(path, `data:${blob.type};base64,${btoa(binaryText(bytes))}`);
  }

  /** Also failed ones: a missing logo is not worth a request, and a line in the console, at every refresh. */
  private readonly _requested = new Set<string>();
  private readonly _loaded = new Map<string, string>();
}

function logoPaths(resources: Resources): [string, string][] {
  return Object.entries(resources).filter(([key]) => key.startsWith('logo-'));
}

function binaryText(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}
