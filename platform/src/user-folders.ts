/** The user's folders, as the XDG Base Directory Specification finds them. */
import { userInfo } from 'node:os';
import path from 'node:path';
import { ServeError } from './errors.js';

type Env = Readonly<Record<string, string | undefined>>;

const DEFAULTS = {
  XDG_CACHE_HOME: '.cache',
  XDG_DATA_HOME: '.local/share',
  XDG_STATE_HOME: '.local/state'
} as const;

/** `$HOME`; the account's folder if the variable is unset or relative, which would mean another folder in each working directory. */
export function homeFolder(env: Env = process.env): string {
  for (const folder of [env['HOME'], accountFolder()]) {
    if (folder !== undefined && path.isAbsolute(folder)) return folder;
  }
  throw new ServeError('state_dir_unusable', 'Your home folder is unknown; set HOME to its absolute path.');
}

function accountFolder(): string | undefined {
  try {
    return userInfo().homedir;
  } catch {
    // This user id has no account, as in some containers.
    return undefined;
  }
}

/** A base folder. The specification requires that a relative value is ignored. */
export function xdgFolder(name: keyof typeof DEFAULTS, env: Env = process.env): string {
  const set = env[name] ?? '';
  return path.isAbsolute(set) ? set : path.join(homeFolder(env), DEFAULTS[name]);
}
