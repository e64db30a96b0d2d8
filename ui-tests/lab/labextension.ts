/** The labextensions that a Lab of the tests loads: our built extension, or a deliberately broken one, and all others. */
import { cp, mkdir, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { LABEXTENSION, LABEXTENSION_NAME, LAB_ENV } from './paths.js';

/**
 * - `entryThrows`: our script throws as soon as it runs
 * - `entryMissing`: the server has no such script
 * - `chunksMissing`: our script loads, but not its imports
 * - `serviceThrows`, `uiThrows`: plugins load, and throw when they are activated
 * - `absent`: not installed at all, for comparison
 */
export type Breakage =
  | 'absent'
  | 'entryThrows'
  | 'entryMissing'
  | 'chunksMissing'
  | 'serviceThrows'
  | 'uiThrows';

/** The error that broken code throws. */
export const BROKEN = 'deliberately broken';

/** Plugins that replace Lab's own service managers, and their dependencies. All others belong to the user interface. */
const SERVICE_PLUGIN = /^@tpulab\/labextension:(backends|kernels?|kernel-?specs?|sessions?|.*managers?)$/i;

/** Fills `folder` with the extensions that a Lab loads, as its only `labextensions_path`. */
export async function prepareLabextensions(folder: string, breakage?: Breakage): Promise<void> {
  const installed = join(LAB_ENV, 'share', 'jupyter', 'labextensions');
  for (const name of await extensionNames(installed)) {
    if (name === LABEXTENSION_NAME) continue;
    await mkdir(join(folder, name, '..'), { recursive: true });
    await symlink(join(installed, name), join(folder, name));
  }
  if (breakage === 'absent') return;
  const ours = join(folder, LABEXTENSION_NAME);
  await mkdir(join(ours, '..'), { recursive: true });
  if (breakage === undefined) {
    await symlink(LABEXTENSION, ours);
  } else {
    await cp(LABEXTENSION, ours, { recursive: true });
    await damage(join(ours, 'static'), breakage);
  }
}

async function extensionNames(folder: string): Promise<string[]> {
  const names: string[] = [];
  for (const entry of await readdir(folder)) {
    if (!entry.startsWith('@')) names.push(entry);
    else for (const inner of await readdir(join(folder, entry))) names.push(`${entry}/${inner}`);
  }
  return names;
}

async function damage(folder: string, breakage: Breakage): Promise<void> {
  const scripts = (await readdir(folder))
    .filter(name => name.endsWith('.js'))
    .map(name => join(folder, name));
  const entries = scripts.filter(path => /remoteEntry\.[^/]*js$/.test(path));
  const chunks = scripts.filter(path => !entries.includes(path) && !/style\.js$/.test(path));
  if (entries.length !== 1 || chunks.length === 0) {
    throw new Error(`Expected one remoteEntry and some chunks in ${folder}; build the extension first.`);
  }
  switch (breakage) {
    case 'absent':
      break;
    case 'entryThrows':
      for (const path of entries) await writeFile(path, `throw new Error('${BROKEN}');`);
      break;
    case 'entryMissing':
      for (const path of entries) await rm(path);
      break;
    case 'chunksMissing':
      for (const path of chunks) await rm(path);
      break;
    case 'serviceThrows':
      await makePluginsThrow(scripts, id => SERVICE_PLUGIN.test(id));
      break;
    case 'uiThrows':
      await makePluginsThrow(scripts, id => !SERVICE_PLUGIN.test(id));
      break;
  }
}

/** Puts a throwing `activate` before the real one in the built code of each chosen plugin. */
async function makePluginsThrow(scripts: readonly string[], chosen: (id: string) => boolean): Promise<void> {
  const plugin = /(\bid:\s*["'])(@tpulab\/labextension:[\w-]+)(["'][^]*?)\bactivate:/g;
  let count = 0;
  for (const path of scripts) {
    const code = await readFile(path, 'utf8');
    const broken = code.replace(plugin, (whole: string, before: string, id: string, between: string) => {
      if (!chosen(id)) return whole;
      count += 1;
      return `${before}${id}${between}activate:()=>{throw new Error("${BROKEN}")},unused:`;
    });
    if (broken !== code) await writeFile(path, broken);
  }
  if (count === 0)
    throw new Error('No plugin was found in the built extension; has the form of its code changed?');
}
