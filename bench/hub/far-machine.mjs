// @ts-check
/** A separate sshd on this machine, a connection to it with an adjustable delay, and an ssh configured for both. Needs no root. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { userInfo } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { spawn } from 'node:child_process';
import { endChild, startChild, until } from '../servers/child.mjs';
import { freePort } from '../servers/free-port.mjs';

const run = promisify(execFile);
const RELAY = fileURLToPath(new URL('delay-relay.mjs', import.meta.url));
const SSHD = ['/usr/sbin/sshd', '/usr/local/sbin/sshd', '/usr/bin/sshd'].find(existsSync);

/**
 * @typedef {object} FarMachine
 * @property {string} bin folder with an `ssh` for the host `far`, to be put first on a PATH
 * @property {(ms: number) => void} setDelay the added round trip
 * @property {(args: readonly string[]) => Promise<() => Promise<void>>} tunnel a plain `ssh -N` with these arguments
 * @property {() => Promise<void>} close
 */

/**
 * @param {string} folder
 * @param {Readonly<Record<string, string>>} env of programs that are run there
 * @returns {Promise<FarMachine>}
 */
export async function openFarMachine(folder, env) {
  if (!SSHD) throw new Error('There is no sshd; install OpenSSH (Debian: apt-get install openssh-server).');
  const bin = path.join(folder, 'near-bin');
  await mkdir(bin, { recursive: true });
  /** @param {string} name */
  const own = name => path.join(folder, name);
  for (const key of ['host_key', 'user_key']) {
    await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', own(key)]);
  }
  const port = await freePort();
  const settings = [
    `Port ${port}`,
    'ListenAddress 127.0.0.1',
    `HostKey ${own('host_key')}`,
    `AuthorizedKeysFile ${own('user_key.pub')}`,
    'PidFile none',
    'UsePAM no',
    'StrictModes no',
    'PasswordAuthentication no',
    'PermitRootLogin prohibit-password',
    `SetEnv ${Object.entries(env)
      .map(([name, value]) => `${name}="${value}"`)
      .join(' ')}`
  ];
  await writeFile(own('sshd_config'), `${settings.join('\n')}\n`);
  // As root, sshd requires this folder, which its package creates only when it starts a server.
  if (process.getuid?.() === 0) await mkdir('/run/sshd', { recursive: true, mode: 0o755 });
  const sshd = startChild([SSHD, '-D', '-e', '-f', own('sshd_config')], {
    env: process.env,
    cwd: folder,
    log: own('sshd.log')
  });
  await until('sshd', () => answers(port), sshd);
  const relay = spawn(process.execPath, [RELAY, String(port)], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [relayPort] = /** @type {string[]} */ (await once(createInterface(relay.stdout), 'line'));
  const known = (await readFile(own('host_key.pub'), 'utf8')).split(' ').slice(0, 2).join(' ');
  await writeFile(own('known_hosts'), `far ${known}\n`);
  const config = [
    'Host far',
    '  HostName 127.0.0.1',
    `  Port ${relayPort}`,
    '  HostKeyAlias far',
    `  User ${userInfo().username}`,
    `  IdentityFile ${own('user_key')}`,
    '  IdentitiesOnly yes',
    '  IdentityAgent none',
    `  UserKnownHostsFile ${own('known_hosts')}`
  ];
  await writeFile(own('ssh_config'), `${config.join('\n')}\n`, { mode: 0o600 });
  const { stdout: ssh } = await run('sh', ['-c', 'command -v ssh']);
  const starter = `#!/bin/sh\nexec '${ssh.trim()}' -F '${own('ssh_config')}' "$@"\n`;
  await writeFile(path.join(bin, 'ssh'), starter, { mode: 0o755 });

  return {
    bin,
    setDelay: ms => void relay.stdin.write(`${ms}\n`),
    async tunnel(args) {
      const child = startChild(
        [path.join(bin, 'ssh'), '-N', '-o', 'ExitOnForwardFailure=yes', ...args, 'far'],
        {
          env: process.env,
          cwd: folder,
          log: own('tunnel.log')
        }
      );
      const ports = args.filter(arg => /^\d+:/.test(arg)).map(arg => Number(arg.split(':')[0]));
      await until(
        'ssh -L',
        async () => ((await Promise.all(ports.map(answers))).every(Boolean) ? true : null),
        child
      );
      return () => endChild(child);
    },
    async close() {
      relay.stdin.end();
      await endChild(relay);
      await endChild(sshd);
    }
  };
}

/** @param {number} port @returns {Promise<true | null>} */
function answers(port) {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(null));
    socket.once('connect', () => socket.destroy());
  });
}
