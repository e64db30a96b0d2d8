/** Uses the `tpulab` that is installed on a host. */
import type { CleanOptions, HostSetup, PreparedHost, RemoteShell, SetupOptions } from '../machine.js';
import { RemoteProblem } from '../remote-error.js';
import { plainText } from '@tpulab/platform/plain-text.js';
import { staged } from '../machine.js';
import { script } from './host-scripts.js';
import { explainHost, finalError } from '../ssh/explain.js';

const STEP_MS = 30_000;
const START_MS = 180_000;

/** The PATH of a login shell, without its prompts: a user's programs are often only on that PATH. */
const USER_PATH = `PATH="$PATH:$HOME/.local/bin:$HOME/bin"
export PATH`;

/** Exits with 3 if there is no `tpulab`, and with 4 and the name of a home folder that does not exist. */
const FIND = `${USER_PATH}
command -v tpulab > /dev/null && exit 0
[ -d "$HOME" ] && exit 3
printf '%s' "$HOME"; exit 4`;

/**
 * The setup of a host without an installation: it uses the `tpulab` on the PATH there, and starts its gateway on a unix
 * socket if none runs, detached, so that it outlives the connection.
 */
export class InstalledSetup implements HostSetup {
  async prepare(shell: RemoteShell, options: SetupOptions): Promise<PreparedHost> {
    const { signal } = options;
    await staged(options, 'bridge', 'Server', async () => {
      const found = await shell.run(FIND, [], { signal, timeoutMs: STEP_MS });
      if (found.code === 0) return;
      if (found.code === 4) {
        const home = plainText(found.stdout.split('\n').at(-1) ?? '', 200);
        throw new RemoteProblem(
          'remote_command_refused',
          `The home folder on ${shell.host}, ${JSON.stringify(home)}, does not exist, so no program of yours is found there. A start-up file (such as ~/.bashrc) sets HOME to it, or the disk with the home folders is not mounted.`
        );
      }
      throw new RemoteProblem(
        'remote_bridge_missing',
        `There is no program "tpulab" on ${shell.host}; install it there, or connect with --install.`
      );
    });
    return staged(options, 'gateway', 'Gateway', async () => {
      const served = await shell.run(`${USER_PATH}\n${script('serve.sh')}`, [], {
        signal,
        timeoutMs: START_MS
      });
      if (served.code !== 0) throw notStarted(shell.host, served.code, served.stderr);
      const prepared = parse(served.stdout);
      if (prepared) return prepared;
      throw new RemoteProblem(
        'remote_bridge_failed',
        `The server on ${shell.host} does not listen on a unix socket; stop it there with "tpulab stop" (its kernels keep running), then connect again.`
      );
    });
  }

  /** Nothing was installed, so this only ends the gateway and its kernels. */
  async clean(shell: RemoteShell, { signal }: CleanOptions): Promise<void> {
    await shell.run(`${USER_PATH}\ntpulab stop --kernels`, [], { signal, timeoutMs: START_MS });
  }
}

function notStarted(host: string, code: number, output: string): RemoteProblem {
  return (
    explainHost(host, output) ??
    new RemoteProblem(
      'remote_bridge_failed',
      `The server on ${host} does not start: ${finalError(output.trim().split('\n')) || `it ended with code ${code} and said nothing. A limit of the account may be too small ("ulimit -a" there shows them)`}`
    )
  );
}

/** Parses the last three lines; a login shell may have printed text before them. */
function parse(stdout: string): PreparedHost | null {
  const [version = '', record = '', token = ''] = stdout.trim().split('\n').slice(-3);
  try {
    const { url, gatewayId } = JSON.parse(record) as { url?: string; gatewayId?: string };
    const socket = /^http\+unix:\/\/([^/]+)\//.exec(url ?? '')?.[1];
    if (socket === undefined || gatewayId === undefined || token === '') return null;
    return { socketPath: decodeURIComponent(socket), token, gatewayId, version };
  } catch {
    return null;
  }
}
