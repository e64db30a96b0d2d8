/** Explains a failure of `colab`, run alone or below ssh: one error code for each possible remedy. */
import type { Cause } from '@tpulab/platform/known-causes.js';
import { explained, RemoteProblem, type RemoteErrorCode } from '../remote-error.js';

export const MANAGE_SESSIONS =
  'in Colab (https://colab.research.google.com), under Runtime > Manage sessions';
const LOGIN_COMMAND = 'colab usage';
const ADC_LOGIN =
  'gcloud auth application-default login --scopes=openid,https://www.googleapis.com/auth/cloud-platform,https://www.googleapis.com/auth/userinfo.email,https://www.googleapis.com/auth/colaboratory';

/** The order matters: a message about 403 also contains 404, and a time-out also mentions the connection. */
const CAUSES: readonly Cause<RemoteErrorCode>[] = [
  {
    pattern: /No such command 'ssh'/,
    code: 'colab_outdated',
    message: 'This version of the colab command has no "ssh". Update it, then connect again.',
    command: 'uv tool upgrade google-colab-cli'
  },
  {
    pattern: /To authorize colab-cli/,
    code: 'colab_login',
    message:
      'The colab command is not logged in. Run the command in a terminal and follow its instructions, then connect again.',
    command: LOGIN_COMMAND
  },
  {
    pattern: /No valid default credentials|default credentials were not found/,
    code: 'colab_login',
    message:
      'The colab command found no default credentials of Google Cloud. Run the command in a terminal, then connect again.',
    command: ADC_LOGIN
  },
  {
    pattern: /Allocation refused/,
    code: 'colab_no_capacity',
    message:
      'Colab refused the runtime: no such TPU is free, too many runtimes are active, or a usage limit is reached. End an unneeded runtime, or wait, then connect again.'
  },
  {
    pattern: /Backend rejected accelerator/,
    code: 'colab_not_entitled',
    message:
      'Your Colab plan does not include this TPU. Choose the other one (v5e1 or v6e1), or change your plan, then connect again.'
  },
  {
    pattern: /'outcome': 5\b/,
    code: 'colab_not_assigned',
    message:
      'Colab has restricted this account and creates no runtime for it. Read what Colab shows when you open a notebook there.'
  },
  {
    pattern: /'outcome': 2\b/,
    code: 'colab_not_assigned',
    message:
      'The quota of this account is used up, so Colab created no runtime. Wait, or change your plan, then connect again.'
  },
  {
    pattern: /PostAssignmentResponse|'outcome': 1\b/,
    code: 'colab_not_assigned',
    message:
      'Colab created no runtime: none is free now, or your plan has none. Wait, or change your plan, then connect again.'
  },
  {
    pattern: /Service Unavailable|Read timed out/,
    code: 'colab_unavailable',
    message: 'Colab is overloaded or too slow, and reported no runtime.'
  },
  {
    pattern: /\(HTTP 429\)/,
    code: 'colab_busy',
    message:
      'Another SSH connection to this runtime is open; Colab allows one. A connection that was lost is released after a while.'
  },
  {
    pattern: /unsupported key type/,
    code: 'colab_key_refused',
    message:
      'Colab does not accept this type of key, only Ed25519. End this runtime, then connect again to get a new key.'
  },
  {
    pattern: /\(HTTP 403\)/,
    code: 'colab_forbidden',
    message:
      'Colab refuses SSH to this runtime. Your plan may not include it: Colab asks for a positive balance of compute units.'
  },
  {
    pattern: /\(HTTP 401\)|\(HTTP 404\)|not found\. Run/,
    code: 'colab_runtime_unknown',
    message: 'Colab refused SSH to the runtime, which is still running.'
  },
  {
    pattern: /\(HTTP 502\)|WebSocket connection failed|WebSocket upgrade/,
    code: 'colab_unreachable',
    message: 'The runtime cannot be reached through Colab now.'
  },
  {
    pattern: /Max retries exceeded|NameResolutionError|Failed to establish a new connection/,
    code: 'colab_offline',
    message: 'Colab cannot be reached from this computer. Check that it is online.'
  }
];

/** null: no known message of `colab`. The login address is never repeated, because it belongs to one login. */
export function explainColab(lines: readonly string[]): RemoteProblem | null {
  return explained(CAUSES, lines, undefined);
}

/** The error for a failed call, whether or not its message is known. */
export function colabFailure(what: string, errors: readonly string[]): RemoteProblem {
  const last = errors.findLast(line => line.trim() !== '')?.trim() ?? 'no reason given';
  return (
    explainColab(errors) ??
    new RemoteProblem('colab_failed', `"colab ${what}" failed (${withoutQueries(last).slice(0, 300)}).`)
  );
}

/** The query string of an address may contain a token. */
function withoutQueries(text: string): string {
  return text.replace(/(https?:\/\/[^\s?]+)\?\S+/g, '$1?…');
}
