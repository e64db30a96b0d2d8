/**
 * `/bridge/v1/page-key`: the key that replaces the token in the session page. `/bridge/v1/page-code`: the code that
 * replaces it in a link.
 */
import { Type } from '@sinclair/typebox';
import type { App } from './app.js';
import type { Authenticator } from './authentication.js';
import type { BaseUrl } from './base-url.js';
import { bridgeError } from '@tpulab/platform/errors.js';
import { cookieName, newNonce, PAGE_KEY, pageCookie } from './page-key.js';
import { route } from './api-description.js';

export function addPageKeyRoute(app: App, authenticator: Authenticator, base: BaseUrl): void {
  app.get(
    PAGE_KEY,
    route(
      'A key for the page that shows a token or the code of a link, which works with the cookie that is set here',
      { 200: Type.Object({ key: Type.String() }) },
      { access: ['read'] }
    ),
    async (request, reply) => {
      const gateway = authenticator.cookieOf;
      const identity = authenticator.identifyPage(request.raw);
      // Another page has already used the code.
      if (identity === null) throw bridgeError('unauthorized');
      // Other tabs continue with the existing cookie.
      const nonce = pageCookie(request.headers.cookie, gateway) ?? newNonce();
      return reply
        .header('set-cookie', `${cookieName(gateway)}=${nonce}; Path=${base.path}; HttpOnly; SameSite=Strict`)
        .send({ key: authenticator.keyFor(identity, nonce) });
    }
  );
  app.post(
    '/bridge/v1/page-code',
    route('A code for a link to the session page: it works once, for ten minutes, in place of the token', {
      201: Type.Object({ code: Type.String() })
    }),
    async (request, reply) => {
      const identity = authenticator.identify(request.raw, false) ?? { client: null };
      return reply.code(201).send({ code: authenticator.codes.make(identity) });
    }
  );
}
