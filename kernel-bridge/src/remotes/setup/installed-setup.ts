/** Uses the `tpulab` that is installed on a host. */
import type { CleanOptions, HostSetup, PreparedHost, RemoteShell, SetupOptions } from '../contracts.js';
import { RemoteProblem } from '../remote-error.js';
import { staged } from '../remote-report.js';
import { explainHost } from '../ssh/explain.js';

const STEP_MS = 30_000;
const START_MS = 180_000;

/** The PATH of a login shell without its prompts: programs of a user are often only there. */
const USER_PATH = `PATH="$PATH:$HOME/.local/bin:$HOME/bin"
export PATH`;

/** Fails with 3 where there is none. */
const FIND = `${USER_PATH}
command -v tpulab > /dev/null || exit 3`;

/**
 * Prints version, record and token of the gateway that serves the state folder, a line each, after it was started where none did.
 * Exit 4: it does not start; why is on standard error.
 */
const SERVE = `${USER_PATH}
# One that cannot be run says so at once.
version=$(tpulab --version) || exit 4
state="\${TPULAB_STATE_DIR:-\${XDG_STATE_HOME:-$HOME/.local/state}/tpulab}"
umask 077
mkdir -p "$state/run" || { echo "the state folder $state cannot be made" >&2; exit 4; }
serves() { tpulab status --state-dir "$state" --json 2> /dev/null | grep -q '"status":"'; }
# Cheap, and not as sure: a process of another program may have got the number.
seems_to() {
  pid_there=$(sed -n 's/.*"pid":\\([0-9]*\\).*/\\1/p' "$state/gateway.json" 2> /dev/null)
  [ -n "$pid_there" ] && kill -0 "$pid_there" 2> /dev/null
}
if ! serves; then
  free=$(df -Pk "$state" | awk 'NR == 2 { print $4 }')
  if [ "\${free:-9999}" -lt 1024 ]; then echo "No space left on device: $free KiB for $state" >&2; exit 4; fi
  rm -f "$state/gateway.json"
  out="$state/run/serve.out"
  detach=nohup
  if command -v setsid > /dev/null; then detach=setsid; fi
  $detach tpulab serve --unix-socket --state-dir "$state" > "$out" 2>&1 < /dev/null &
  pid=$!
  tries=0
  until seems_to; do
    # One that ends at once may have met another that has just been started; then that one is soon there.
    kill -0 "$pid" 2> /dev/null || tries=$((tries + 10))
    tries=$((tries + 1))
    if [ "$tries" -gt 300 ]; then tail -n 20 "$out" >&2; exit 4; fi
    sleep 0.2
  done
fi
echo "$version"
tr -d '\\n' < "$state/gateway.json"; echo
cat "$state/token"`;

/**
 * The setup of a host where nothing is to be installed: it uses the `tpulab` on the PATH there, and starts its gateway on a unix
 * socket where none runs, detached, so that it outlives the connection.
 */
export class InstalledSetup implements HostSetup {
  async prepare(shell: RemoteShell, options: SetupOptions): Promise<PreparedHost> {
    const { signal } = options;
    await staged(options, 'bridge', 'Server', async () => {
      const found = await shell.run(FIND, [], { signal, timeoutMs: STEP_MS });
      if (found.code === 0) return;
      throw new RemoteProblem(
        'remote_bridge_missing',
        `There is no program "tpulab" on ${shell.host}; install it there, or connect with --install.`
      );
    });
    return staged(options, 'gateway', 'Gateway', async () => {
      const served = await shell.run(SERVE, [], { signal, timeoutMs: START_MS });
      if (served.code !== 0) throw notStarted(shell.host, served.stderr);
      const prepared = parse(served.stdout);
      if (prepared) return prepared;
      throw new RemoteProblem(
        'remote_bridge_failed',
        `The server on ${shell.host} does not listen on a unix socket; stop it there with "tpulab stop" (its kernels keep running), then connect again.`
      );
    });
  }

  /** Nothing was installed, so only the gateway and its kernels are ended. */
  async clean(shell: RemoteShell, { signal }: CleanOptions): Promise<void> {
    await shell.run(`${USER_PATH}\ntpulab stop --kernels`, [], { signal, timeoutMs: START_MS });
  }
}

function notStarted(host: string, output: string): RemoteProblem {
  const why = output.trim().split('\n').slice(-3).join(' ');
  return (
    explainHost(host, output) ??
    new RemoteProblem('remote_bridge_failed', `The server on ${host} does not start: ${why}`)
  );
}

/** The last three lines; a login shell may have said something before. */
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
