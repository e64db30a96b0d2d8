/**
 * `/session` and `/session/NOTEBOOK`: the session page, without a token. It contains no secret; the page gets the token from the
 * fragment of its address, and sends it with each of its own requests.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { readFile, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { Type } from '@sinclair/typebox';
import type { FastifyReply } from 'fastify';
import { notJson } from '../http/api-description.js';
import type { App } from '../http/app.js';
import type { BaseUrl } from '../http/base-url.js';
import { bridgeError } from '@tpulab/platform/errors.js';

/** All files below this folder are assets: their names contain a hash of their content. */
const ASSETS = '_page/';
/**
 * Only the page's own scripts; its loader as the one inline script (by hash); no foreign form; only the gateway's frames.
 * Pictures, sound and video load from any https address: such an address can leak nothing from the page, where no script of a
 * notebook runs.
 */
const policy = (scripts: readonly string[] = []): string =>
  [
    "default-src 'self'",
    ["script-src 'self'", ...scripts].join(' '),
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob: https:",
    "media-src 'self' data: blob: https:",
    "font-src 'self' data:",
    "connect-src 'self'",
    "object-src 'none'",
    "base-uri 'self'",
    "form-action 'none'",
    "frame-ancestors 'self'"
  ].join('; ');
const IMMUTABLE = 'public, max-age=31536000, immutable';
const Page = notJson('the page', 'text/html');

export function addSessionPageRoutes(app: App, base: BaseUrl, folder?: string): void {
  const files = new PageFiles(folder);
  const schema = (summary: string) => ({ summary, security: [], response: { 200: Page } });
  app.get('/session', { schema: schema('The session page. Needs no token') }, async (_request, reply) =>
    // The page's relative addresses are below this one.
    reply.redirect(base.full('/session/'), 308)
  );
  app.get(
    '/session/_frame',
    { schema: schema('The frame in which the session page shows outputs with scripts. Needs no token') },
    async (_request, reply) =>
      safe(reply)
        .headers({
          'content-security-policy': FRAME_POLICY,
          'content-type': 'text/html; charset=utf-8',
          'cache-control': 'no-cache'
        })
        .send(FRAME)
  );
  app.get(
    '/session/*',
    {
      schema: {
        ...schema('The session page with a notebook, or one of its assets. Needs no token'),
        operationId: 'get_session_page',
        params: Type.Object({ '*': Type.String() })
      }
    },
    async ({ params, headers }, reply) => {
      const name = params['*'];
      if (name.startsWith(ASSETS)) {
        const found = await files.find(name, /\bgzip\b/.test(headers['accept-encoding'] ?? ''));
        if (found === null) throw bridgeError('session_page_missing');
        if (found.isCompressed) void reply.header('content-encoding', 'gzip');
        return safe(reply)
          .headers({
            'content-type': found.type,
            'cache-control': IMMUTABLE,
            vary: 'Origin, Accept-Encoding'
          })
          .send(found.bytes);
      }
      const page = files.index();
      if (page === null) throw bridgeError('session_page_missing');
      return safe(reply, policy(inlineScripts(page)))
        .headers({ 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-cache' })
        .send(page.replace('<head>', `<head><base href="${base.full('/session/')}">`));
    }
  );
}

/** Hashes of inline scripts, as sources of a content security policy. */
function inlineScripts(page: string): string[] {
  return [...page.matchAll(/<script>([^]*?)<\/script>/g)].map(
    ([, script = '']) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`
  );
}

export function safe(reply: FastifyReply, scriptPolicy = policy()): FastifyReply {
  return reply.headers({
    'content-security-policy': scriptPolicy,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin'
  });
}

/** `session/` of the package; or, for the bundle of a checkout (`.tpulab/bridge`), the session page of the sources. */
function pageFolder(): string {
  const own = fileURLToPath(new URL('../../', import.meta.url));
  return firstBuilt(path.join(own, 'session'), path.resolve(own, '../../kernel-bridge/session'));
}

/** The first of these folders that contains a page, otherwise the first one. */
export function firstBuilt(first: string, ...others: readonly string[]): string {
  return [first, ...others].find(folder => existsSync(path.join(folder, INDEX))) ?? first;
}

const expanded = promisify(gunzip);

const INDEX = 'index.html';
/** The build compresses compressible files once, at the highest level, and keeps only the compressed file. */
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
  '.png': 'image/png',
  '.wav': 'audio/wav'
};

interface PageFile {
  readonly type: string;
  readonly bytes: Buffer;
  readonly isCompressed: boolean;
}

export class PageFiles {
  constructor(private readonly folder: string = pageFolder()) {}

  /** Null when the page has no such file, or was not built. */
  async find(name: string, acceptsGzip: boolean): Promise<PageFile | null> {
    const type = TYPES[path.extname(name)] ?? 'application/octet-stream';
    if (!(await this.#has(name + COMPRESSED)))
      return (await this.#has(name))
        ? { type, bytes: await readFile(this.#pathOf(name)), isCompressed: false }
        : null;
    const bytes = await readFile(this.#pathOf(name + COMPRESSED));
    return { type, bytes: acceptsGzip ? bytes : await expanded(bytes), isCompressed: acceptsGzip };
  }

  /** The page itself; null when it was not built. Small, and requested at each load. */
  index(): string | null {
    try {
      return readFileSync(path.join(this.folder, INDEX), 'utf8');
    } catch {
      return null;
    }
  }

  #pathOf(name: string): string {
    return path.join(this.folder, ...name.split('/'));
  }

  /**
   * Checked at each request: in a checkout the page may be built while the gateway runs. Hidden files and links are not part of a
   * page.
   */
  async #has(name: string): Promise<boolean> {
    const parts = name.split('/');
    if (!parts.every(part => /^[^.\\\0][^\\\0]*$/.test(part))) return false;
    try {
      const [folder, file] = await Promise.all([realpath(this.folder), realpath(this.#pathOf(name))]);
      return file === path.join(folder, ...parts) && (await stat(file)).isFile();
    } catch {
      return false;
    }
  }
}

/** Sources from which the libraries that draw charts and maps load their scripts, styles, fonts and shapes. */
const LIBRARIES = [
  'https://cdn.plot.ly',
  'https://cdn.jsdelivr.net',
  'https://cdnjs.cloudflare.com',
  'https://unpkg.com',
  'https://cdn.bokeh.org',
  'https://cdn.holoviz.org',
  'https://code.jquery.com',
  'https://esm.sh',
  'https://netdna.bootstrapcdn.com',
  'https://maxcdn.bootstrapcdn.com'
].join(' ');

/**
 * `unsafe-eval` is for chart libraries that compile their expressions. Nothing is sent to the gateway: `'self'` is in no rule.
 * Pictures, sound and video load from any https address, as in the page itself: the tiles of a map do.
 */
const FRAME_POLICY = [
  'sandbox allow-scripts',
  "default-src 'none'",
  `script-src 'unsafe-inline' 'unsafe-eval' blob: ${LIBRARIES}`,
  `style-src 'unsafe-inline' ${LIBRARIES}`,
  `font-src data: ${LIBRARIES}`,
  'img-src data: blob: https:',
  'media-src data: blob: https:',
  `connect-src data: blob: ${LIBRARIES}`,
  'worker-src blob:',
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'self'"
].join('; ');

/**
 * `/session/_frame`: the empty document in which the session page shows outputs with scripts. Its frame has an opaque origin, so
 * its scripts reach neither the page nor its token, storage or cookies. The page sends it the output, once per load, and receives
 * its height. See docs/decisions/0015-outputs-in-frames.md. It announces itself, and runs the script that the page sends, which
 * turns the output into a document.
 */
const FRAME = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Output</title></head>
<body><script>
addEventListener('message', ({ source, data, ports }) => {
  if (source !== parent || typeof data?.boot !== 'string') return;
  globalThis.tpulabFrame = { content: data.content, port: ports[0] };
  document.body.replaceChildren();
  const script = document.createElement('script');
  script.textContent = data.boot;
  document.head.append(script);
}, { once: true });
parent.postMessage({ tpulabFrame: 'ready' }, '*');
</script></body>
</html>
`;
