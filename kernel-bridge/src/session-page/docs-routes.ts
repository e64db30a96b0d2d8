/** `/docs/…`: the documentation, as `npm run docs` builds it, without a token: it is the same for everyone and knows nothing of a kernel. */
import { Type } from '@sinclair/typebox';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { notJson } from '../http/api-description.js';
import type { App } from '../http/app.js';
import type { BaseUrl } from '../http/base-url.js';
import { errorWith } from '../http/errors.js';
import { PageFiles } from './session-page-routes.js';

/** The address that the site is built for. A server behind a proxy has another one, so its own is put in when a page is sent. */
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

export const DocsMissingError = errorWith(
  'docs_missing',
  () =>
    'This page of the documentation is not part of this installation; in a checkout, `npm run docs` builds it.'
);

/** `documentation/` of the package, or what a checkout has built. */
function docsFolder(): string {
  const own = fileURLToPath(new URL('../../', import.meta.url));
  const places = [
    path.join(own, 'documentation'),
    path.resolve(own, '../.tpulab/docs/dist'),
    path.resolve(own, '../docs/dist')
  ];
  return (
    places.find(folder => existsSync(path.join(folder, 'index.html'))) ?? path.join(own, 'documentation')
  );
}

/** @param folder absent: looked for at each start of a page, because a checkout may build it while the server runs */
export function addDocsRoutes(app: App, base: BaseUrl, folder?: string): void {
  const schema = {
    summary: 'The documentation. Needs no token',
    security: [],
    response: { 200: notJson('a page', 'text/html') }
  };
  app.get('/docs', { schema }, async (_request, reply) => reply.redirect(base.full('/docs/'), 308));
  app.get(
    '/docs/*',
    { schema: { ...schema, operationId: 'get_documentation', params: Type.Object({ '*': Type.String() }) } },
    async ({ params }, reply) => {
      const name = params['*'];
      const files = new PageFiles(folder ?? docsFolder());
      const found = await files.find(name === '' ? 'index.html' : name, false);
      if (found === null) throw new DocsMissingError();
      const { type, bytes } = found;
      return reply
        .headers({
          'content-security-policy': POLICY,
          'x-content-type-options': 'nosniff',
          'referrer-policy': 'no-referrer',
          'content-type': type,
          'cache-control': 'no-cache'
        })
        .send(
          HAS_ADDRESSES.test(type) ? bytes.toString('utf8').replaceAll(BUILT_FOR, base.full('/docs/')) : bytes
        );
    }
  );
}
