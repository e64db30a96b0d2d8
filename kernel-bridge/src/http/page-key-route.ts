/** `/bridge/v1/page-key`: what the session page keeps in place of its token. */
import { Type } from '@sinclair/typebox';
import type { App } from './app.js';
import type { Authenticator } from './authentication.js';
import type { BaseUrl } from './base-url.js';
import { cookieName, newNonce, pageCookie } from './page-key.js';

export function addPageKeyRoute(app: App, authenticator: Authenticator, base: BaseUrl): void {
  app.get(
    '/bridge/v1/page-key',
    {
      config: { access: ['read'] },
      schema: {
        summary: 'A key for the page that shows a token, which works with the cookie that is set here',
        response: { 200: Type.Object({ key: Type.String() }) }
      }
    },
    async (request, reply) => {
      const gateway = authenticator.cookieOf;
      const identity = authenticator.identify(request.raw, false) ?? { client: null };
      // Other tabs go on with the cookie that is there.
      const nonce = pageCookie(request.headers.cookie, gateway) ?? newNonce();
      return reply
        .header('set-cookie', `${cookieName(gateway)}=${nonce}; Path=${base.path}; HttpOnly; SameSite=Strict`)
        .send({ key: authenticator.keyFor(identity, nonce) });
    }
  );
}
