/**
 * Why a tunnel through Identity-Aware Proxy did not open: what `gcloud compute start-iap-tunnel` wrote before ssh noticed that its
 * proxy was gone. The close codes are those of the relay; the forms around them are of `iap_tunnel_websocket.py`.
 */
import { RemoteProblem, type RemoteErrorCode } from '../remote-error.js';
import { LOGIN, OFFLINE } from './gcloud.js';

interface Reason {
  readonly pattern: RegExp;
  readonly code: RemoteErrorCode;
  readonly say: string;
  readonly command?: string;
}

const REASONS: readonly Reason[] = [
  {
    pattern: OFFLINE,
    code: 'gcloud_offline',
    say: 'The IAP tunnel did not open: gcloud cannot reach Google. Check that this computer is online.'
  },
  {
    pattern: LOGIN,
    code: 'gcloud_login',
    say: 'The IAP tunnel did not open: gcloud is not logged in. Log in, then connect again.',
    command: 'gcloud auth login'
  },
  {
    pattern: /Error while connecting \[(4033|Handshake status 40[013])|missing permissions|not authorized/,
    code: 'gcloud_permission',
    say: 'Identity-Aware Proxy does not admit your account. Ask an owner of the project to run the command.'
  },
  {
    pattern: /Error while connecting \[4003|failed to connect to backend/,
    code: 'remote_iap_blocked',
    say: 'Identity-Aware Proxy cannot reach port 22 of the machine. Either it is still booting, or no firewall rule lets IAP in; the command adds one.'
  },
  {
    pattern: /Error while connecting \[4047|Failed to lookup instance/,
    code: 'remote_unreachable',
    say: 'Identity-Aware Proxy finds no running machine of this name. Check that the machine is running.'
  }
];

/** From here on ssh speaks itself, or repeats what the other side sent. */
const SSH_SPEAKS =
  /^(kex_exchange_identification|ssh_exchange_identification|Connection (closed|reset|to )|Received disconnect|Disconnected|banner|client_loop|ssh: )/;

/** null: nothing is known against the tunnel. */
export function explainTunnel(lines: readonly string[]): RemoteProblem | null {
  const end = lines.findIndex(line => SSH_SPEAKS.test(line));
  const words = lines.slice(0, end < 0 ? lines.length : end).join('\n');
  if (!/^ERROR: /m.test(words)) return null;
  const found = REASONS.find(({ pattern }) => pattern.test(words));
  return found ? new RemoteProblem(found.code, found.say, { command: found.command }) : null;
}
