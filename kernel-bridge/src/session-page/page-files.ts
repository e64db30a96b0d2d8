/** The files of the built session page. Only names that are in the folder are served, so no path leads anywhere else. */
import { existsSync, readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';

/** `session/` of the package; beside the bundle that a checkout runs (`.tpulab/bridge`), that of the sources. */
function pageFolder(): string {
  const own = fileURLToPath(new URL('../../', import.meta.url));
  const places = [path.join(own, 'session'), path.resolve(own, '../../kernel-bridge/session')];
  return places.find(folder => existsSync(path.join(folder, INDEX))) ?? path.join(own, 'session');
}

const expanded = promisify(gunzip);

export const INDEX = 'index.html';
/** The build compresses what can be compressed once, as well as it can, and keeps nothing else of it. */
const COMPRESSED = '.gz';

const TYPES: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
  '.woff': 'font/woff',
  '.ttf': 'font/ttf',
  '.png': 'image/png'
};

export interface PageFile {
  readonly type: string;
  readonly bytes: Buffer;
  readonly isCompressed: boolean;
}

export class PageFiles {
  constructor(private readonly folder: string = pageFolder()) {}

  /** Null when the page has no such file, or was not built. */
  async find(name: string, takesGzip: boolean): Promise<PageFile | null> {
    const names = await this.#listed();
    const type = TYPES[path.extname(name)] ?? 'application/octet-stream';
    if (!names.has(name + COMPRESSED)) {
      return names.has(name) ? { type, bytes: await this.#read(name), isCompressed: false } : null;
    }
    const bytes = await this.#read(name + COMPRESSED);
    return { type, bytes: takesGzip ? bytes : await expanded(bytes), isCompressed: takesGzip };
  }

  /** The page itself; null when it was not built. Small, and asked for at each load. */
  index(): string | null {
    try {
      return readFileSync(path.join(this.folder, INDEX), 'utf8');
    } catch {
      return null;
    }
  }

  #read(name: string): Promise<Buffer> {
    return readFile(path.join(this.folder, ...name.split('/')));
  }

  /** Looked at again at each request: in a checkout the page may be built while the gateway runs. */
  async #listed(): Promise<ReadonlySet<string>> {
    const names = await readdir(this.folder, { recursive: true }).catch(() => [] as string[]);
    return new Set(names.map(name => name.split(path.sep).join('/')));
  }
}
