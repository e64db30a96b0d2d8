// @ts-check
/**
 * The tools of specs that reach a machine over ssh: OpenSSH, rsync and iproute2. Each program is searched separately; a
 * missing one comes from Debian's packages where they can be installed. Specs that lack one are skipped and name it.
 */
import { accessSync, constants, existsSync } from 'node:fs';
import path from 'node:path';
import { run } from '../setup/run-command.mjs';

/** Folders in which distributions put some of them; they are not on every user's PATH. */
const FOLDERS = ['/usr/sbin', '/sbin', '/usr/local/sbin'];

/** @type {Readonly<Record<string, { readonly packageName: string, readonly skipped: string }>>} */
const PROGRAMS = {
  sshd: { packageName: 'openssh-server', skipped: 'the specs that reach a machine over ssh' },
  ssh: { packageName: 'openssh-client', skipped: 'the specs that reach a machine over ssh' },
  rsync: { packageName: 'rsync', skipped: 'the specs that sync a folder' },
  ip: { packageName: 'iproute2', skipped: 'the specs that reach a machine over ssh' }
};

/**
 * @param {Readonly<Record<string, string | undefined>>} [env]
 * @param {readonly string[]} [folders] in addition to PATH
 * @returns {string[]} the missing programs
 */
export function missingPrograms(env = process.env, folders = FOLDERS) {
  const searched = [...(env['PATH'] ?? '').split(path.delimiter), ...folders];
  return Object.keys(PROGRAMS).filter(
    name => !searched.some(folder => folder !== '' && isExecutable(path.join(folder, name)))
  );
}

/**
 * @param {readonly string[]} programs
 * @returns {string[]} one line for each
 */
export function explainSkipped(programs) {
  return programs.map(name => `without ${name}, ${PROGRAMS[name]?.skipped} are skipped`);
}

/** @type {Promise<void> | undefined} */
let offered;

/**
 * Once for all parts that call it: two of them may run at the same time.
 *
 * @param {AbortSignal} signal
 * @param {(text: string) => void} print
 */
export function offerSsh(signal, print) {
  return (offered ??= offer(signal, print));
}

/**
 * @param {AbortSignal} signal
 * @param {(text: string) => void} print
 */
async function offer(signal, print) {
  if (process.platform !== 'linux') return;
  const missing = missingPrograms();
  if (missing.length > 0 && canInstall(missing)) await install(missing, signal, print);
  for (const line of explainSkipped(missingPrograms())) print(line);
}

/** @param {readonly string[]} missing */
function canInstall(missing) {
  if (process.getuid?.() !== 0 || !isExecutable('/usr/bin/apt-get')) return false;
  // Where systemd runs, the package of sshd would start an unwanted server.
  return !missing.includes('sshd') || !existsSync('/run/systemd/system');
}

/**
 * @param {readonly string[]} missing
 * @param {AbortSignal} signal
 * @param {(text: string) => void} print
 */
async function install(missing, signal, print) {
  const packages = missing.map(name => PROGRAMS[name]?.packageName ?? name);
  print(`installing ${packages.join(', ')}`);
  const env = { DEBIAN_FRONTEND: 'noninteractive' };
  const options = { signal, env, timeoutMs: 10 * 60_000 };
  try {
    await run('apt-get', ['update', '-q'], options);
    await run('apt-get', ['install', '-y', '-q', '--no-install-recommends', ...packages], options);
  } catch {
    // Programs still missing afterwards are named; only an abort is thrown.
    signal.throwIfAborted();
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
