// @ts-check
/**
 * The bridge as one folder that needs nothing but Node: its programs with all their imports, and its data. npm packs this
 * folder, the wheel of the extension contains it, and it is copied to a TPU VM.
 */
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { bundlePrograms, referencedFiles } from '../setup/bridge-programs.mjs';
import { checkout } from '../setup/checkout.mjs';
import { SESSION_PAGE } from '../setup/session-page.mjs';
import { SetupProblem } from '../setup/setup-problem.mjs';
import { licenceTexts } from './licences.mjs';
import { writePayloadRecord } from './payload-record.mjs';
import { ownWheels } from './wheels.mjs';

const SOURCES = path.join(checkout.root, 'kernel-bridge');
/** Locks of tools that the bridge itself fetches, beside the descriptions of kernel environments. */
const TOOL_LOCKS = ['host', 'fetch'];

/**
 * Builds the folder next to its final path and renames it into place.
 *
 * @param {string} place
 * @param {{ signal?: AbortSignal, detail?: (text: string) => void, documentation?: string }} [options] `documentation`: the
 *   folder of the built site, for what people install, which then has the lessons and the session page too; hosts need none of them
 */
export async function makeBridgeBundle(place, { signal, detail = () => undefined, documentation } = {}) {
  const building = `${place}.building-${process.pid}`;
  const replaced = `${place}.replaced-${process.pid}`;
  try {
    await rm(building, { recursive: true, force: true });
    await mkdir(building, { recursive: true });
    detail('bundling the bridge');
    const inputs = await bundlePrograms(building);
    await writeFile(
      path.join(building, 'THIRD-PARTY-LICENCES.txt'),
      await licenceTexts(inputs, checkout.root)
    );
    await copyData(building);
    detail('making the wheels of the Python packages');
    await ownWheels(path.join(building, 'wheels'), signal);
    await requireReferencedFiles(building);
    await writePayloadRecord(building);
    // After the record: a changed lesson or page makes no other bridge for the hosts that have one, which need neither.
    if (documentation !== undefined) {
      await copyLessons(building);
      await cp(documentation, path.join(building, 'documentation'), { recursive: true });
      await cp(SESSION_PAGE, path.join(building, 'session'), { recursive: true });
    }
    if (existsSync(place)) await rename(place, replaced);
    await mkdir(path.dirname(place), { recursive: true });
    await rename(building, place);
  } finally {
    for (const leftover of [building, replaced]) await rm(leftover, { recursive: true, force: true });
  }
}

/** @param {string} folder */
async function copyLessons(folder) {
  await cp(checkout.notebooks, path.join(folder, 'lessons'), {
    recursive: true,
    filter: file => file === checkout.notebooks || file.endsWith('.ipynb')
  });
}

/** @param {string} folder */
async function copyData(folder) {
  const { version, description, license, engines, bin } = JSON.parse(
    await readFile(path.join(SOURCES, 'package.json'), 'utf8')
  );
  // Called as people type it, `npx tpulab`. Without dependencies: all of them are in the bundle.
  const manifest = { name: 'tpulab', version, description, license, type: 'module', engines, bin };
  await writeFile(path.join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  for (const part of ['bin', 'proto'])
    await cp(path.join(SOURCES, part), path.join(folder, part), { recursive: true });
  await cp(path.join(checkout.root, 'LICENSE'), path.join(folder, 'LICENSE'));
  for (const environment of await readdir(checkout.definitions)) {
    const from = path.join(checkout.definitions, environment);
    const isKernel = existsSync(path.join(from, 'environment.json'));
    if (!isKernel && !TOOL_LOCKS.includes(environment)) continue;
    await cp(from, path.join(folder, 'environments', environment), {
      recursive: true,
      filter: file => !/(__pycache__|\.pyc|requirements.*\.in)$/.test(file)
    });
  }
}

/** @param {string} folder */
async function requireReferencedFiles(folder) {
  const missing = (await referencedFiles()).filter(file => !existsSync(path.join(folder, file)));
  if (missing.length === 0) return;
  throw new SetupProblem(
    'failed',
    `The bundle lacks files that the bridge looks for: ${missing.join(', ')}; add them to scripts/package/bridge-bundle.mjs.`
  );
}
