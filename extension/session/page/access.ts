/** The permissions of this page's token. */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { fixedBridgeSettings } from '../../src/backends/bridge-settings.js';
import { trans } from '../text.js';

export interface Access {
  /** It may read one notebook and its kernel, and change nothing. */
  readonly isReadOnly: boolean;
}

/** The gateway rejects this token, or is unreachable. */
export class AccessError extends Error {
  constructor(
    readonly kind: 'refused' | 'unreachable',
    message: string
  ) {
    super(message);
  }
}

/** Whether it is a page key, which is useless to a script that finds it. */
export const isStorable = (token: string): boolean => token.startsWith('page-');

/** Whether it is the code of a single-use link. */
const isCode = (token: string): boolean => token.startsWith('code-');

/**
 * The credential that replaces the one in the address: a key that works only with a cookie that scripts cannot read. In a browser
 * without cookies the page uses the token, which is then stored nowhere.
 *
 * @throws AccessError
 */
export async function enter(
  gateway: string,
  token: string
): Promise<{ readonly access: Access; readonly key: string }> {
  if (isCode(token)) {
    const key = await keyFor(gateway, token, LINK_USED);
    return { key, access: await requestAccess(gateway, key, NO_COOKIES) };
  }
  const access = await requestAccess(gateway, token);
  if (isStorable(token)) return { access, key: token };
  try {
    const key = await keyFor(gateway, token);
    await requestAccess(gateway, key);
    return { access, key };
  } catch {
    return { access, key: token };
  }
}

async function keyFor(gateway: string, token: string, refusal?: string): Promise<string> {
  const answer = await request(gateway, 'bridge/v1/page-key', token, refusal);
  return ((await answer.json()) as { key: string }).key;
}

async function requestAccess(gateway: string, token: string, refusal?: string): Promise<Access> {
  const response = await request(gateway, 'bridge/v1/health', token, refusal);
  const health = (await response.json().catch(() => ({}))) as { access?: string };
  return { isReadOnly: health.access === 'read' };
}

const TOKEN_REFUSED = trans.__('The server refused this token. It may have been revoked or have expired.');
const LINK_USED = trans.__(
  'This link was opened before, or is older than ten minutes. A link works once; make another one.'
);
const NO_COOKIES = trans.__(
  'This browser stores no cookies for this page, so the link cannot be used. Allow them, or paste a token.'
);

/** @throws AccessError */
async function request(
  gateway: string,
  route: string,
  token: string,
  refusal = TOKEN_REFUSED
): Promise<Response> {
  const settings = fixedBridgeSettings({ url: gateway, token });
  let response: Response;
  try {
    response = await tpulabRetry(() =>
      ServerConnection.makeRequest(
        URLExt.join(gateway, route),
        { credentials: 'same-origin', signal: AbortSignal.timeout(20_000) },
        settings
      )
    );
  } catch {
    throw new AccessError(
      'unreachable',
      trans.__('The server cannot be reached. Check that it runs, then try again.')
    );
  }
  if (response.status === 403 || response.status === 401) throw new AccessError('refused', refusal);
  return response;
}
