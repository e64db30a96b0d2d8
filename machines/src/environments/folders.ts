/**
 * The folder of environments, and the names of a creation's temporary folders beside an environment:
 * `.NAME.building-ID` during the build, `.NAME.replaced-ID` while a new environment replaces the old one.
 */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile, rename, rm } from 'node:fs/promises';
import { makeFolder } from '@tpulab/platform/missing-files.js';
import { fullDisk } from '@tpulab/platform/full-disk.js';
import { plainText } from '@tpulab/platform/plain-text.js';
import path from 'node:path';
import { EnvironmentError } from './environment-error.js';
import { isLocked } from './creation-record.js';

const LEFTOVER = /^\.(?<name>[a-z0-9][a-z0-9-]*)\.(?<kind>building|replaced)-[0-9a-f-]+$/;

export function environmentFolder(environments: string, name: string): string {
  return path.join(environments, name);
}

export function pythonOf(environment: string): string {
  return path.join(environment, 'bin', 'python');
}

/**
 * The pip wheel bundled with the Python of an environment; null if there is none. It needs no index, and uv
 * installs it in relocatable form.
 */
export async function bundledPip(environment: string): Promise<string | null> {
  const config = await readFile(path.join(environment, 'pyvenv.cfg'), 'utf8').catch(() => '');
  const home = /^home *= *(.+)$/m.exec(config)?.[1]?.trim();
  const version = /^version(?:_info)? *= *(\d+\.\d+)/m.exec(config)?.[1];
  if (home === undefined || version === undefined) return null;
  const bundled = path.join(home, '..', 'lib', `python${version}`, 'ensurepip', '_bundled');
  // Debian stores the wheel elsewhere.
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

/** Moves a built folder into place. The old one is removed only after the new one is in place. */
export async function putInPlace(built: string, environments: string, name: string): Promise<void> {
  const place = environmentFolder(environments, name);
  const aside = path.join(environments, `.${name}.replaced-${randomUUID()}`);
  const replaces = existsSync(place);
  if (replaces) await rename(place, aside);
  await rename(built, place);
  if (replaces) await removeFolder(aside);
}

/** Hides the environment immediately, because deleting its many files may be slow. */
export async function removeEnvironment(environments: string, name: string): Promise<void> {
  const aside = path.join(environments, `.${name}.building-${randomUUID()}`);
  await rename(environmentFolder(environments, name), aside);
  await removeFolder(aside);
}

export async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 5 });
}

/** Removes the files of killed creations; an environment that was being replaced is moved back. */
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
  const refused = (why: string, cause?: unknown): EnvironmentError =>
    new EnvironmentError(
      'env_permission',
      `The folder ${plainText(environments)} cannot hold environments: ${why}; choose another with --env-dir.`,
      { cause }
    );
  // The first line of an installed script is the path of its Python.
  if (/[\n\r]/.test(environments)) throw refused('its name has a line break');
  try {
    await makeFolder(environments, 0o700);
  } catch (error) {
    if (fullDisk(error) !== null) throw error;
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    throw refused(/^(EEXIST|ENOTDIR)$/.test(code) ? 'it is not a folder' : `the system says ${code}`, error);
  }
}
