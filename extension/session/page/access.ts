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
      trans.__('The gateway cannot be reached. Check that it runs, then try again.')
    );
  }
  if (response.status === 403 || response.status === 401) {
    throw new AccessError(
      'refused',
      trans.__('The gateway refused this token. It may have been revoked or have expired.')
    );
  }
  const health = (await response.json().catch(() => ({}))) as { access?: string };
  return { isReadOnly: health.access === 'read' };
}
