/** What google-colab-cli 0.7.5 prints, byte for byte; beside each the module of `colab_cli` that has it. */

// utility.version_command
export const version = (/** @type {string} */ number) => `Version: ${number}\n`;

// typer, for a command that this version does not have
export const noSuchCommand = (/** @type {string} */ name) =>
  `Usage: colab [OPTIONS] COMMAND [ARGS]...
Try 'colab -h' for help.
╭─ Error ──────────────────────────────────────────────────────────────────────╮
│ ${`No such command '${name}'.`.padEnd(76)} │
╰──────────────────────────────────────────────────────────────────────────────╯
`;

// auto_update.announce_upgrade: an empty line before and after
export const banner = (/** @type {string} */ newer, /** @type {string} */ current) => `
[colab] A new version of Colab CLI is available: ${newer} (current: ${current})
[colab] Run 'colab update' to update.
[colab] To silence this check, set "enable_update_check": false in ~/.config/colab-cli/settings.json

`;

// consumption.format_consumption_status
export const usage = (
  /** @type {{ balance: number, rate: number, count: number }} */ { balance, rate, count }
) =>
  `Current balance: ${balance.toFixed(2)} compute units\nUsage rate: ${rate.toFixed(2)}/hr\nActive assignments: ${count}\n`;

// commands/usage.usage
export const usageFailed = (/** @type {string} */ why) =>
  `[colab] Warning: failed to fetch compute-unit info: ${why}\n`;

// auth._run_remote_flow; the prompt is on stdout and has no line end
export const LOGIN_PROMPT = 'Enter the authorization code: ';
export const LOGIN_URL = `
To authorize colab-cli, visit this URL in any browser:

  https://accounts.google.com/o/oauth2/auth?response_type=code&client_id=stand-in&prompt=consent&token_usage=remote

After approving, Google will display an authorization code.
`;

// auth._get_adc_credentials
export const NO_DEFAULT_CREDENTIALS = `No valid default credentials found. To authenticate, run:

  gcloud auth application-default login \\
      --scopes=openid,https://www.googleapis.com/auth/cloud-platform,https://www.googleapis.com/auth/userinfo.email,https://www.googleapis.com/auth/colaboratory

`;

// commands/session
export const creating = (/** @type {string} */ name) => `[colab] Creating session '${name}'...\n`;
export const READY = '[colab] Session READY.\n';
export const notFound = (/** @type {string} */ name) => `[colab] Session '${name}' not found.\n`;
export const NO_ACTIVE_SESSIONS = '[colab] No active sessions.\n';
export const NOTHING_ON_SERVER = '[colab] No active sessions found on server.\n';
export const stopping = (/** @type {string} */ name) => `[colab] Stopping session '${name}'...\n`;
export const TERMINATED = '[colab] Session terminated.\n';

export function line(
  /** @type {string} */ name,
  /** @type {{ endpoint: string, hardware: string }} */ { endpoint, hardware },
  /** @type {string | undefined} */ status = undefined
) {
  const parts = [`[${name}] ${endpoint}`, `Hardware: ${hardware}`, 'Shape: Standard', 'Variant: TPU'];
  return `${[...parts, ...(status === undefined ? [] : [`Status: ${status}`])].join(' | ')}\n`;
}

// common.State
export const pruned = (/** @type {number} */ count) => `[colab] Pruned ${count} stale local session(s).\n`;
export const using = (/** @type {string} */ name) => `[colab] Using unique session '${name}'.\n`;
export const NOTHING_TO_USE = "[colab] Error: No active sessions found. Create one with 'colab new'.\n";
export const several = (/** @type {readonly string[]} */ names) =>
  `[colab] Error: Multiple active sessions found. Specify one with -s: ${names.join(', ')}\n`;

/** With TYPER_STANDARD_TRACEBACK=1; the frames in between are left out. */
export const traceback = (/** @type {string} */ last) =>
  `Traceback (most recent call last):
  File "/usr/lib/python3/site-packages/colab_cli/client.py", line 358, in _post_assignment
    return self._issue_request(
           ^^^^^^^^^^^^^^^^^^^^
${last}
`;

const unassigned = (/** @type {number} */ outcome) =>
  traceback(
    [
      'pydantic_core._pydantic_core.ValidationError: 4 validation errors for PostAssignmentResponse',
      ...['accelerator', 'endpoint', 'runtimeProxyInfo', 'variant'].flatMap(field => [
        field,
        `  Field required [type=missing, input_value={'outcome': ${outcome}}, input_type=dict]`,
        '    For further information visit https://errors.pydantic.dev/2.14/v/missing'
      ])
    ].join('\n')
  );

const POST =
  'POST https://colab.research.google.com/tun/m/assign?nbh=4ca580a6_b5c3_453d_8905_2a407e2afc96........&variant=TPU&accelerator=';

/** Of `new`, whose exit code is then 1. @param {string} name @param {string} hardware */
export function newFailure(name, hardware) {
  /** @type {Record<string, string>} */
  const all = {
    412: '[colab] Allocation refused (precondition failed). This can mean too many active sessions, or a temporary usage or capacity limit for the requested runtime. Run `colab stop` to free up a session, wait and retry, or try a different accelerator.\n',
    400: `[colab] Backend rejected accelerator '${hardware}'. You may not have quota or entitlement for this accelerator on your account. Try a different one (e.g. --gpu T4) or omit --gpu/--tpu for a CPU runtime.\n`,
    503: traceback(
      `colab_cli.client.ColabRequestError: Failed to issue request ${POST}${hardware}: Service Unavailable`
    ),
    timeout: traceback(
      "requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='colab.research.google.com', port=443): Read timed out. (read timeout=600.0)"
    ),
    'outcome 1': unassigned(1),
    'outcome 2': unassigned(2),
    'outcome 5': unassigned(5)
  };
  return all[name] ?? fall(name);
}

/** Of `ssh --proxy-mode` (ssh._explain_handshake_failure), whose exit code is then 1. @param {string} name */
export function sshFailure(name) {
  /** @type {Record<string, string>} */
  const all = {
    rsa: 'Server rejected pubkey: unsupported key type. Accepted key types: ssh-ed25519, ecdsa-sha2-nistp{256,384,521}. RSA keys (ssh-rsa) are NOT accepted. Generate an Ed25519 key with `ssh-keygen -t ed25519` and re-run (optionally with --identity).',
    401: 'Authentication failed (HTTP 401): the runtime-proxy token is invalid. The session may have expired - try `colab new`.',
    403: 'Forbidden (HTTP 403): the server refused this request; the runtime-proxy token may lack permission for this action. (A runtime without SSH enabled returns 404, not 403.)',
    404: 'Endpoint not found (HTTP 404): this runtime does not expose the /colab/ssh endpoint. SSH is enabled at runtime creation, so an older or non-SSH runtime will not have it - run `colab new` for a fresh runtime with SSH.',
    429: 'Already-active SSH session (HTTP 429): another `colab ssh` is connected to this runtime. Disconnect it and retry.',
    502: "Bad gateway (HTTP 502): the runtime's local sshd is unreachable. The runtime may be unhealthy; try `colab status`, then `colab stop` + `colab new`.",
    network:
      'WebSocket connection failed: [Errno 111] Connection refused. Check your network and that the runtime is healthy (`colab status`).'
  };
  return `[colab] ${all[name] ?? fall(name)}\n`;
}

/** @param {string} name @returns {never} */
function fall(name) {
  throw new Error(`The stand-in has no failure "${name}".`);
}
