/** `/bridge/v1/links`: links that let other people read one notebook and watch its kernel, and nothing else. */
import { randomBytes } from 'node:crypto';
import { Type } from '@sinclair/typebox';
import { NewShare, NewShareRequest, type Share, ShareList } from '@tpulab/protocol';
import { failure, route } from '../http/api-description.js';
import type { App } from '../http/app.js';
import { bridgeError } from '@tpulab/platform/errors.js';
import { hasExpired, TokenError, type TokenRecord, type TokenStore } from '../http/token-store.js';
import type { NotebookStamp } from '../http/rights.js';

const MAX_HOURS = 24 * 365;

/**
 * @param exists whether the file exists: a link must not apply to a notebook that is created later @param stampOf the stamp
 * that distinguishes the notebook from another one created later at its path
 */
export function addShareRoutes(
  app: App,
  store: TokenStore,
  exists: (path: string) => Promise<unknown>,
  stampOf: (path: string) => NotebookStamp | undefined
): void {
  app.get(
    '/bridge/v1/links',
    route('Links for readers, without their tokens', { 200: ShareList }),
    async (): Promise<ShareList> => ({ shares: store.list().flatMap(record => shareOf(record)) })
  );
  app.post(
    '/bridge/v1/links',
    route(
      'Creates a token that may read one notebook',
      {
        201: NewShare,
        404: failure('There is no such notebook below the root folder.'),
        409: failure('There are too many tokens, or they cannot be written.')
      },
      { body: NewShareRequest }
    ),
    async ({ body }, reply) => {
      const { path, expiresInHours } = body;
      if (!path.endsWith('.ipynb')) throw bridgeError('invalid_request', 'Only notebooks can be shared.');
      if (expiresInHours > MAX_HOURS) throw bridgeError('invalid_request', 'A link lasts a year at most.');
      await exists(path);
      const stamp = stampOf(path);
      const expiresAt = new Date(Date.now() + expiresInHours * 3_600_000);
      try {
        const { token, record } = await store.create(`view-${randomBytes(4).toString('hex')}`, expiresAt, {
          reads: path,
          ...(stamp === undefined ? {} : { stamp })
        });
        const [share] = shareOf(record);
        return await reply.code(201).send({ ...share, token } as NewShare);
      } catch (error) {
        if (error instanceof TokenError) throw bridgeError('share_not_made', error.message, error);
        throw error;
      }
    }
  );
  app.delete(
    '/bridge/v1/links/:name',
    route(
      'Revokes a link at once and disconnects its readers',
      { 204: Type.Null({ description: 'revoked' }), 404: failure('There is no such link.') },
      { params: Type.Object({ name: Type.String() }) }
    ),
    async ({ params: { name } }, reply) => {
      // A client's token is not a link: it is revoked through the API that created it.
      if (!store.list().some(record => record.name === name && record.reads !== undefined))
        throw bridgeError('share_not_found', name);
      try {
        await store.revoke(name);
      } catch (error) {
        if (error instanceof TokenError && error.code === 'token_unknown')
          throw bridgeError('share_not_found', name);
        throw error;
      }
      return reply.code(204).send(null);
    }
  );
}

/** Empty for a token that is not a link. */
function shareOf(record: TokenRecord): Share[] {
  const { name, createdAt, expiresAt, reads } = record;
  return reads === undefined
    ? []
    : [{ name, path: reads, createdAt, expiresAt, expired: hasExpired(record, Date.now()) }];
}
