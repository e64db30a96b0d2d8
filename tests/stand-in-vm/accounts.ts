/** Users of a stand-in VM, their keys, and the identity of its sshd. */
import { execFile } from 'node:child_process';
import { chmod, chown, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { requireProgram } from './availability.js';

const run = promisify(execFile);

export const USER = 'ana';
export const USER_ID = 4001;
export const PASSWORD = 'correct horse';

/** Files of `/etc`, with one user who may log in. The machine's name derives from its address, as in Google's images. */
export async function writeAccounts(
  folder: string,
  { hostName, address, hashedPassword }: Record<'hostName' | 'address' | 'hashedPassword', string>
): Promise<void> {
  const etc = path.join(folder, 'etc');
  await mkdir(path.join(etc, 'ssh'), { recursive: true });
  const files: Record<string, string> = {
    passwd: `root:x:0:0:root:/root:/bin/sh\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n${USER}:x:${USER_ID}:${USER_ID}:Ana:/home/${USER}:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n`,
    shadow: `root:*:19000::::::\nsshd:*:19000::::::\n${USER}:${hashedPassword}:19000::::::\n`,
    group: `root:x:0:\n${USER}:x:${USER_ID}:\nnogroup:x:65534:\n`,
    hosts: `127.0.0.1 localhost\n${address} ${hostName}\n169.254.169.254 metadata.google.internal metadata\n`,
    hostname: `${hostName}\n`
  };
  for (const [name, text] of Object.entries(files)) {
    await writeFile(path.join(etc, name), text, { mode: name === 'shadow' ? 0o600 : 0o644 });
  }
}

/** In a form that sshd's own crypt(3) supports everywhere. */
export async function hashPassword(password: string): Promise<string> {
  const { stdout } = await run('openssl', ['passwd', '-6', password]);
  return stdout.trim();
}

/** A new key for the host, as when the machine is recreated. */
export async function newHostKey(folder: string): Promise<void> {
  const file = hostKeyFile(folder);
  await rm(file, { force: true });
  await rm(`${file}.pub`, { force: true });
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'stand-in', '-f', file]);
}

export async function publicHostKey(folder: string): Promise<string> {
  return (await readFile(`${hostKeyFile(folder)}.pub`, 'utf8')).split(' ').slice(0, 2).join(' ');
}

/** The keys with which the user may log in. */
export async function authorize(homes: string, publicKeys: readonly string[]): Promise<void> {
  const ssh = path.join(homes, USER, '.ssh');
  await mkdir(ssh, { recursive: true, mode: 0o700 });
  await writeFile(path.join(ssh, 'authorized_keys'), publicKeys.join(''), { mode: 0o600 });
  for (const at of [path.dirname(ssh), ssh, path.join(ssh, 'authorized_keys')]) {
    await chown(at, USER_ID, USER_ID);
  }
  await chmod(path.dirname(ssh), 0o755);
}

/** The command line of its sshd; the configuration is read again at each boot. */
export async function writeSshd(
  folder: string,
  options: {
    readonly password: boolean;
    readonly env: Readonly<Record<string, string>>;
    /** Root may log in with the keys of `rootKeys`. */
    readonly root?: boolean;
    /** Lines before these: of several, sshd uses the first. */
    readonly more?: readonly string[];
  }
): Promise<string> {
  const file = path.join(folder, 'opt', 'sshd_config');
  const set = Object.entries(options.env)
    .map(([name, value]) => `${name}="${value}"`)
    .join(' ');
  const lines = [
    ...(options.more ?? []),
    'Port 22',
    'HostKey /opt/host_key',
    'PidFile none',
    'UsePAM no',
    `PasswordAuthentication ${options.password ? 'yes' : 'no'}`,
    'KbdInteractiveAuthentication no',
    `PermitRootLogin ${options.root === true ? 'prohibit-password' : 'no'}`,
    'Subsystem sftp internal-sftp',
    'LogLevel VERBOSE',
    ...(set === '' ? [] : [`SetEnv ${set}`]),
    ...(options.root === true ? ['Match User root', '  AuthorizedKeysFile /opt/root_keys'] : [])
  ];
  await writeFile(file, `${lines.join('\n')}\n`);
  return `${requireProgram('sshd')} -D -e -f /opt/sshd_config 2>> /opt/sshd.log`;
}

/** Keys with which root may log in, one in a line. */
export function rootKeysFile(folder: string): string {
  return path.join(folder, 'opt', 'root_keys');
}

function hostKeyFile(folder: string): string {
  return path.join(folder, 'opt', 'host_key');
}
