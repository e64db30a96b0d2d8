/**
 * `/docs/…`: the documentation that `npm run docs` builds. No token is needed: it is the same for all users and contains no
 * kernel data.
 */
import { Type } from '@sinclair/typebox';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { notJson } from '../http/api-description.js';
import type { App } from '../http/app.js';
import { BaseUrl } from '../http/base-url.js';
import { bridgeError } from '@tpulab/platform/errors.js';
import { firstBuilt, PageFiles, safe } from './session-page-routes.js';

/**
 * The placeholder address for which the site is built. Behind a proxy the address differs, so each page gets the server's
 * actual address when it is sent.
 */
const BUILT_FOR = '/tpulab-docs-base/';
const HAS_ADDRESSES = /^text\/(html|javascript|css)/;
/** The site has small scripts in its pages, all of them ours. */
const POLICY = [
  "default-src 'self'",
  "script-src 'self' 'unsafe-inline'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "media-src 'self' data:",
  "object-src 'none'",
  "base-uri 'self'",
  "form-action 'none'",
  "frame-ancestors 'self'"
].join('; ');

const NOT_BUILT = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>TPULab documentation</title></head>
<body style="font: 16px/1.5 sans-serif; max-width: 40em; margin: 4em auto; color-scheme: light dark">
<h1>The documentation is not built yet</h1>
<p>In a checkout, run <code>npm run docs</code>, then reload this page. The same text is in the folder <code>docs</code>; begin with
<code>docs/README.md</code>.</p>
</body>
</html>`;

/** `documentation/` of the package, or the build of a checkout. */
function docsFolder(): string {
  const own = fileURLToPath(new URL('../../', import.meta.url));
  return firstBuilt(
    path.join(own, 'documentation'),
    path.resolve(own, '../.tpulab/docs/dist'),
    path.resolve(own, '../docs/dist')
  );
}

/** @param folder absent: searched at each page request, because a checkout may build it while the server runs */
export function addDocsRoutes(app: App, base: BaseUrl, folder?: string): void {
  const schema = {
    summary: 'The documentation. Needs no token',
    security: [],
    response: {
      200: notJson('a page', 'text/html'),
      404: notJson('for a browser, the page that says so', 'text/html')
    }
  };
  app.get('/docs', { schema }, async (_request, reply) => reply.redirect(base.full('/docs/'), 308));
  app.get(
    '/docs/*',
    { schema: { ...schema, operationId: 'get_documentation', params: Type.Object({ '*': Type.String() }) } },
    async ({ params, headers }, reply) => {
      const name = params['*'];
      void safe(reply, POLICY).headers({ 'cache-control': 'no-cache', vary: 'Origin, X-Forwarded-Prefix' });
      const files = new PageFiles(folder ?? docsFolder());
      const found = await files.find(name.replace(/(^|\/)$/, '$1index.html'), false);
      // The menus link here, so in a checkout without a built site the user gets instructions.
      if (found === null && name === '') return reply.type('text/html; charset=utf-8').send(NOT_BUILT);
      // For an old link, the site's own page with its menus is shown.
      const shown =
        found ?? (headers.accept?.includes('text/html') ? await files.find('404.html', false) : null);
      if (shown === null) throw bridgeError('docs_missing');
      if (found === null) void reply.code(404);
      const { type, bytes } = shown;
      const address = (seenThrough(headers['x-forwarded-prefix']) ?? base).full('/docs/');
      return reply
        .type(type)
        .send(HAS_ADDRESSES.test(type) ? bytes.toString('utf8').replaceAll(BUILT_FOR, () => address) : bytes);
    }
  );
}

/** The address under which a proxy serves this server: JupyterLab's proxy removes its prefix from the path. Null: no proxy. */
function seenThrough(prefix: string | string[] | undefined): BaseUrl | null {
  if (typeof prefix !== 'string') return null;
  try {
    return new BaseUrl(prefix);
  } catch {
    return null;
  }
}
