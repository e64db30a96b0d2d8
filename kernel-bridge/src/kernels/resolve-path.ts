/** Whether a file that a page knows by a path exists: below the root folder, or as the kernel sees it. */
import { stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';

/**
 * The path relative to the root folder, with slashes, or null when there is no such file below it. What lies outside of the
 * root is never looked at, so that nothing can be learned about it.
 */
export async function resolveBelowRoot(rootDir: string, asked: string): Promise<string | null> {
  const root = path.resolve(rootDir);
  const expanded = expandHome(asked);
  const wasExpanded = expanded !== asked;
  const isInside = path.isAbsolute(expanded) && (wasExpanded || expanded.startsWith(root + path.sep));
  // An absolute path of a client begins at the root folder, as everywhere in Jupyter's API.
  const file = isInside ? path.resolve(expanded) : path.resolve(root, expanded.replace(/^\/+/, ''));
  const relative = path.relative(root, file);
  if (relative === '..' || relative.startsWith(`..${path.sep}`)) return null;
  return (await exists(file)) ? relative.split(path.sep).join('/') : null;
}

/** The absolute path of a file that the kernel names relative to the folder in which it was started, or null. */
export async function resolveForKernel(workingDirectory: string, asked: string): Promise<string | null> {
  const file = path.resolve(workingDirectory, expandHome(asked));
  return (await exists(file)) ? file : null;
}

function expandHome(asked: string): string {
  return asked === '~' || asked.startsWith('~/') ? path.join(homedir(), asked.slice(1)) : asked;
}

async function exists(file: string): Promise<boolean> {
  try {
    await stat(file);
    return true;
  } catch {
    // Also for what can be no path at all: with a zero byte, or too long.
    return false;
  }
}
