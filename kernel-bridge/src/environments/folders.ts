/**
 * The folder of environments, and the names that a creation uses beside an environment:
 * `.NAME.building-ID` while it is made, `.NAME.replaced-ID` while a new one takes its place.
 */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { isLocked } from './creation-record.js';

const LEFTOVER = /^\.(?<name>[a-z0-9][a-z0-9-]*)\.(?<kind>building|replaced)-[0-9a-f-]+$/;

export function environmentFolder(environments: string, name: string): string {
  return path.join(environments, name);
}

export function pythonOf(environment: string): string {
  return path.join(environment, 'bin', 'python');
}

/**
 * The wheel of pip that comes with the Python of an environment; null where that has none. An index is not needed for it, and uv
 * installs it so that it can be moved.
 */
export async function bundledPip(environment: string): Promise<string | null> {
  const config = await readFile(path.join(environment, 'pyvenv.cfg'), 'utf8').catch(() => '');
  const home = /^home *= *(.+)$/m.exec(config)?.[1]?.trim();
  const version = /^version(?:_info)? *= *(\d+\.\d+)/m.exec(config)?.[1];
  if (home === undefined || version === undefined) return null;
  const bundled = path.join(home, '..', 'lib', `python${version}`, 'ensurepip', '_bundled');
  // Debian keeps it elsewhere.
  for (const folder of [bundled, '/usr/share/python-wheels']) {
    const wheel = (await readdir(folder).catch(() => [])).find(name => /^pip-.*\.whl$/.test(name));
    if (wheel !== undefined) return path.join(folder, wheel);
  }
  return null;
}

/** A sibling of the environment, so that the rename at the end stays on one file system and is atomic. */
export function newBuildFolder(environments: string, name: string): string {
  return path.join(environments, `.${name}.building-${randomUUID()}`);
}

/** Puts a built folder in place. What was there goes only when the new one is in. */
export async function putInPlace(built: string, environments: string, name: string): Promise<void> {
  const place = environmentFolder(environments, name);
  const aside = path.join(environments, `.${name}.replaced-${randomUUID()}`);
  const replaces = existsSync(place);
  if (replaces) await rename(place, aside);
  await rename(built, place);
  if (replaces) await removeFolder(aside);
}

/** Takes the environment out of sight at once; deleting its many files then may take its time. */
export async function removeEnvironment(environments: string, name: string): Promise<void> {
  const aside = path.join(environments, `.${name}.building-${randomUUID()}`);
  await rename(environmentFolder(environments, name), aside);
  await removeFolder(aside);
}

export async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 5 });
}

/** Removes what killed creations left behind; an environment that was being replaced is put back. */
export async function sweepLeftovers(environments: string): Promise<readonly string[]> {
  let entries: string[];
  try {
    entries = await readdir(environments);
  } catch {
    return [];
  }
  const swept: string[] = [];
  for (const entry of entries) {
    const { name, kind } = LEFTOVER.exec(entry)?.groups ?? {};
    if (name === undefined || (await isLocked(environments, name))) continue;
    const leftover = path.join(environments, entry);
    const place = environmentFolder(environments, name);
    if (kind === 'replaced' && !existsSync(place)) await rename(leftover, place);
    else await removeFolder(leftover);
    swept.push(entry);
  }
  return swept;
}

export async function makeEnvironmentsFolder(environments: string): Promise<void> {
  await mkdir(environments, { recursive: true, mode: 0o700 });
}
