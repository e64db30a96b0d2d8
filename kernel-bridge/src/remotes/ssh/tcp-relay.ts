/**
 * Where a host's sshd forwards ports but no unix sockets: a relay there from a port of its loopback interface to the socket of the
 * gateway. It ends with the connection. Others who are logged in there can reach the port; the gateway answers nobody without its token.
 */
import { deadline } from '../../platform/waiting.js';
import { createInterface } from 'node:readline';
import { RemoteProblem } from '../remote-error.js';
import { shellCommand } from './ssh-shell.js';
import { SshProcess, viaMaster } from './ssh-process.js';

const START_MS = 30_000;

export interface TcpRelay extends AsyncDisposable {
  /** On the loopback interface of the host. */
  readonly port: number;
}

export async function startTcpRelay(options: {
  readonly program: string;
  readonly controlPath: string;
  /** On the host. */
  readonly socketPath: string;
  readonly host: string;
  readonly signal: AbortSignal;
}): Promise<TcpRelay> {
  const { program, controlPath, socketPath, host, signal } = options;
  const ssh = await SshProcess.start({
    program,
    args: viaMaster(controlPath, ['-T'], shellCommand('exec python3 -c "$1" "$2"', [PROGRAM, socketPath]))
  });
  using within = deadline(START_MS, signal);
  const limit = within.signal;
  const port = await new Promise<number>(resolve => {
    const none = (): void => resolve(0);
    limit.addEventListener('abort', none, { once: true });
    void ssh.ended.then(none);
    createInterface({ input: ssh.child.stdout }).on('line', line => {
      // A start-up file may have printed before it.
      const [, found] = /^tpulab-port (\d{1,5})$/.exec(line) ?? [];
      if (found !== undefined) resolve(Number(found));
    });
    if (limit.aborted) none();
  });
  if (Number.isInteger(port) && port > 0) return { port, [Symbol.asyncDispose]: () => ssh.end() };
  await ssh.end();
  signal.throwIfAborted();
  throw new RemoteProblem(
    'remote_forward_failed',
    `The sshd of ${host} does not forward unix sockets, and the replacement relay did not start there (${ssh.errors.at(-1) ?? 'no answer'}). Set AllowStreamLocalForwarding to yes in its sshd_config, or install Python 3 there.`
  );
}

/** Ends with its standard input, which is the connection. */
const PROGRAM = `
import socket, sys, threading

def copy(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    try:
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass

def serve(client):
    with client, socket.socket(socket.AF_UNIX) as gateway:
        try:
            gateway.connect(sys.argv[1])
        except OSError:
            return
        back = threading.Thread(target=copy, args=(gateway, client), daemon=True)
        back.start()
        copy(client, gateway)
        back.join()

def listen(server):
    while True:
        threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=listen, args=(server,), daemon=True).start()
print("\\ntpulab-port", server.getsockname()[1], flush=True)
sys.stdin.buffer.read()
`;
