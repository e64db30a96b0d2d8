/** Where Jupyter keeps its data files on this machine, in the order in which they count. */
import path from 'node:path';

export interface Machine {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly platform: NodeJS.Platform;
  readonly home: string;
}

/** Folders that may hold `kernels/<name>/kernel.json`. Folders that do not exist are listed too. */
export function jupyterDataFolders({ env, platform, home }: Machine): string[] {
  const folders = (env['JUPYTER_PATH'] ?? '').split(path.delimiter).filter(folder => path.isAbsolute(folder));
  folders.push(userFolder({ env, platform, home }));
  for (const name of ['VIRTUAL_ENV', 'CONDA_PREFIX']) {
    const prefix = env[name];
    if (prefix !== undefined && path.isAbsolute(prefix)) folders.push(path.join(prefix, 'share', 'jupyter'));
  }
  folders.push('/usr/local/share/jupyter', '/usr/share/jupyter');
  return [...new Set(folders)];
}

function userFolder({ env, platform, home }: Machine): string {
  const chosen = env['JUPYTER_DATA_DIR'];
  if (chosen !== undefined && chosen !== '') return chosen;
  if (platform === 'darwin') return path.join(home, 'Library', 'Jupyter');
  const xdg = env['XDG_DATA_HOME'];
  return path.join(xdg !== undefined && xdg !== '' ? xdg : path.join(home, '.local', 'share'), 'jupyter');
}
