/** What the token of this page may do. */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { fixedBridgeSettings } from '../../src/backends/bridge-settings.js';
import { trans } from '../text.js';

export interface Access {
  /** It may read one notebook and its kernel, and change nothing. */
  readonly isReadOnly: boolean;
}

export const FULL_ACCESS: Access = { isReadOnly: false };

/** The gateway does not take this token, or cannot be reached. */
export class AccessError extends Error {
  constructor(
    readonly kind: 'refused' | 'unreachable',
    message: string
  ) {
    super(message);
  }
}

/** Whether it is a key, which is of no use to a script that finds it. */
export const isStorable = (token: string): boolean => token.startsWith('page-');

/**
 * What the page goes on with in place of its token: a key that works only with a cookie that scripts cannot read. Where a browser keeps no
 * cookies it is the token, which is then stored nowhere.
 */
export async function keyOf(gateway: string, token: string): Promise<string> {
  if (isStorable(token)) {
    return token;
  }
  try {
    const settings = fixedBridgeSettings({ url: gateway, token });
    const url = URLExt.join(gateway, 'bridge/v1/page-key');
    const init = { credentials: 'same-origin', signal: AbortSignal.timeout(20_000) } as const;
    const answer = await ServerConnection.makeRequest(url, init, settings);
    const { key } = (await answer.json()) as { key: string };
    await askAccess(gateway, key);
    return key;
  } catch {
    return token;
  }
}

/** @throws AccessError */
export async function askAccess(gateway: string, token: string): Promise<Access> {
  const settings = fixedBridgeSettings({ url: gateway, token });
  const url = URLExt.join(gateway, 'bridge/v1/health');
  let response: Response;
  try {
    response = await ServerConnection.makeRequest(url, { signal: AbortSignal.timeout(20_000) }, settings);
  } catch {
    throw new AccessError(
      'unreachable',
      trans.__('The server cannot be reached. Check that it runs, then try again.')
    );
  }
  if (response.status === 403 || response.status === 401) {
    throw new AccessError(
      'refused',
      trans.__('The server refused this token. It may have been revoked or have expired.')
    );
  }
  const health = (await response.json().catch(() => ({}))) as { access?: string };
  return { isReadOnly: health.access === 'read' };
}
