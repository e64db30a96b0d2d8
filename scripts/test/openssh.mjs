// @ts-check
/**
 * The server of OpenSSH, for specs that reach a machine over ssh: the one that is there, else Debian's package where that can
 * be installed. Without one these specs are skipped, and say so.
 */
import { accessSync, constants, existsSync } from 'node:fs';
import path from 'node:path';
import { run } from '../setup/run-command.mjs';

/** Where distributions put it; it is not on everybody's PATH. */
const FOLDERS = ['/usr/sbin', '/sbin', '/usr/local/sbin'];
const PACKAGES = ['openssh-server', 'openssh-client', 'rsync', 'iproute2'];

/** @returns {boolean} */
export function hasSshd(env = process.env) {
  const folders = [...(env['PATH'] ?? '').split(path.delimiter), ...FOLDERS];
  return folders.some(folder => isExecutable(path.join(folder, 'sshd')));
}

/**
 * @param {AbortSignal} signal
 * @param {(text: string) => void} say
 */
export async function offerSshd(signal, say) {
  if (hasSshd() || process.platform !== 'linux') return;
  // Where systemd runs, the package would start a server that nobody has asked for.
  const canInstall = process.getuid?.() === 0 && isExecutable('/usr/bin/apt-get');
  if (!canInstall || existsSync('/run/systemd/system')) {
    say('without sshd, the specs that reach a machine over ssh are skipped');
    return;
  }
  say(`installing ${PACKAGES.join(', ')}`);
  const env = { DEBIAN_FRONTEND: 'noninteractive' };
  const options = { signal, env, timeoutMs: 10 * 60_000 };
  try {
    await run('apt-get', ['update', '-q'], options);
    await run('apt-get', ['install', '-y', '-q', '--no-install-recommends', ...PACKAGES], options);
  } catch (error) {
    if (signal.aborted) throw error;
    say('sshd could not be installed, so the specs that reach a machine over ssh are skipped');
  }
}

/** @param {string} file */
function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
