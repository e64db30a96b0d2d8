/**
 * `/session` and `/session/NOTEBOOK`: the session page, without a token. It holds no secret; the page sends the token, which it has
 * from the fragment of its address, with each request of its own.
 */
import { Type } from '@sinclair/typebox';
import type { FastifyReply } from 'fastify';
import { notJson } from '../http/api-description.js';
import type { App } from '../http/app.js';
import type { BaseUrl } from '../http/base-url.js';
import { errorWith } from '../http/errors.js';
import { FRAME, FRAME_POLICY } from './output-frame.js';
import { PageFiles } from './page-files.js';

/** Below this all names are assets: their names hold a hash of their content. */
const ASSETS = '_page/';
/**
 * The page's own scripts only: no inline script, none of a notebook, no form elsewhere, no frame but those of the gateway. Pictures, sound
 * and film come from any https address: such an address can carry nothing of the page, where no script of a notebook runs.
 */
const POLICY = [
  "default-src 'self'",
  "script-src 'self'",
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
const FOREVER = 'public, max-age=31536000, immutable';
const Page = notJson('the page', 'text/html');

export const SessionPageMissingError = errorWith(
  'session_page_missing',
  () => 'The session page is not part of this installation; in a checkout, `npm run build` makes it.'
);

export function addSessionPageRoutes(app: App, base: BaseUrl, folder?: string): void {
  const files = new PageFiles(folder);
  const schema = (summary: string) => ({ summary, security: [], response: { 200: Page } });
  app.get('/session', { schema: schema('The session page. Needs no token') }, async (_request, reply) =>
    // Relative addresses of the page are below it.
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
        if (found === null) throw new SessionPageMissingError();
        if (found.isCompressed) void reply.header('content-encoding', 'gzip');
        return safe(reply)
          .headers({ 'content-type': found.type, 'cache-control': FOREVER, vary: 'Origin, Accept-Encoding' })
          .send(found.bytes);
      }
      const page = files.index();
      if (page === null) throw new SessionPageMissingError();
      return safe(reply)
        .headers({ 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-cache' })
        .send(page.replace('<head>', `<head><base href="${base.full('/session/')}">`));
    }
  );
}

function safe(reply: FastifyReply): FastifyReply {
  return reply.headers({
    'content-security-policy': POLICY,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin'
  });
}
