/**
 * Packages that a user has added to an environment: they were requested by name after its creation, with pip or uv, from a
 * cell or a terminal. An update reinstalls them. The environment itself records them, so no other record is needed.
 */
import { existsSync } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { readRecord } from './creation-record.js';

/** Installers and our own packages; an update installs them itself. */
const OWN_PACKAGES: ReadonlySet<string> = new Set([
  'pip',
  'uv',
  'setuptools',
  'wheel',
  'tpulab',
  'tpulab-recipes'
]);

/** As sorted lines of a requirements file. Empty if the environment does not exist or is not ours. */
export async function addedPackages(environment: string): Promise<string[]> {
  const record = await readRecord(environment);
  if (record === null) return [];
  const since = Date.parse(record.createdAt);
  const before = new Set((record.added ?? []).map(nameOf));
  const found: string[] = [];
  for (const folder of await distributions(environment)) {
    // pip and uv write this file for requested packages, not for their dependencies.
    if (!existsSync(path.join(folder, 'REQUESTED'))) continue;
    const requirement = await requirementOf(folder);
    if (requirement === null || OWN_PACKAGES.has(nameOf(requirement))) continue;
    const { mtimeMs } = await stat(path.join(folder, 'REQUESTED'));
    if (before.has(nameOf(requirement)) || mtimeMs > since) found.push(requirement);
  }
  return found.sort();
}

async function distributions(environment: string): Promise<string[]> {
  const lib = path.join(environment, 'lib');
  const pythons = (await readdir(lib).catch(() => [])).filter(name => name.startsWith('python'));
  const folders = pythons.map(name => path.join(lib, name, 'site-packages'));
  const names = await Promise.all(
    folders.map(async folder => (await readdir(folder).catch(() => [])).map(name => path.join(folder, name)))
  );
  return names.flat().filter(name => name.endsWith('.dist-info'));
}

/** The installed version, or the source of the package. */
async function requirementOf(distInfo: string): Promise<string | null> {
  const metadata = await readFile(path.join(distInfo, 'METADATA'), 'utf8').catch(() => '');
  const name = /^Name: *(\S+)/m.exec(metadata)?.[1];
  const version = /^Version: *(\S+)/m.exec(metadata)?.[1];
  if (name === undefined || version === undefined) return null;
  const origin = await readFile(path.join(distInfo, 'direct_url.json'), 'utf8').catch(() => null);
  if (origin === null) return `${name}==${version}`;
  const {
    url,
    vcs_info: vcs,
    dir_info: dir
  } = JSON.parse(origin) as {
    url: string;
    vcs_info?: { vcs: string; commit_id: string };
    dir_info?: { editable?: boolean };
  };
  if (dir?.editable === true) return `-e ${url}`;
  return `${name} @ ${vcs === undefined ? url : `${vcs.vcs}+${url}@${vcs.commit_id}`}`;
}

/** The name, normalised as in package indexes. For an editable folder, the folder itself. */
function nameOf(requirement: string): string {
  const name = /^-e /.test(requirement) ? requirement : (/^[\w.-]+/.exec(requirement)?.[0] ?? requirement);
  return name.toLowerCase().replaceAll(/[-_.]+/g, '-');
}
