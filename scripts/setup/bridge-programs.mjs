// @ts-check
/**
 * The bridge's programs, bundled with the packages `platform` and `machines`: Node starts a few files in less than half of
 * the time that it takes for hundreds of modules. Code that only some commands need is in separate files, so that a gateway
 * does not load it into memory.
 */
import { cp, readdir, readFile, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { checkout } from './checkout.mjs';

/** Packages in the bundle; the files that they read at run time are put beside it. */
const PACKAGES = ['platform', 'machines', 'kernel-bridge'];
const SCRIPTS = 'host';
/** As deep as the programs, so that relative paths resolve from here too. */
const CHUNKS = 'lib/chunks';
/** Time for which a gateway may run after a build and still load the parts of its own build. */
const MAX_AGE_MS = 24 * 3_600_000;

/**
 * @param {string} folder of the package: the programs are put into `lib/`
 * @returns {Promise<string[]>} their source files, relative to the checkout
 */
export async function bundlePrograms(folder) {
  // It exists only after the stage of the npm packages.
  const { build } = await import('esbuild');
  const entries = ['cli/main', ...(await referencedFiles()).flatMap(programOf)];
  const { metafile } = await build({
    absWorkingDir: checkout.root,
    entryPoints: Object.fromEntries(
      [...new Set(entries)].map(name => [`lib/${name}`, `kernel-bridge/src/${name}.ts`])
    ),
    outdir: folder,
    bundle: true,
    splitting: true,
    chunkNames: `${CHUNKS}/[name]-[hash]`,
    platform: 'node',
    format: 'esm',
    target: 'node20.19',
    alias: {
      // An optional native package, which `ws` looks for; a bundle cannot contain it.
      bufferutil: path.join(checkout.root, 'kernel-bridge/src/http/bufferutil.ts'),
      '@tpulab/protocol': path.join(checkout.root, 'protocol/src/index.ts'),
      '@tpulab/platform': path.join(checkout.root, 'platform/src'),
      '@tpulab/machines/environments': path.join(checkout.root, 'machines/src/environments/index.ts'),
      '@tpulab/machines': path.join(checkout.root, 'machines/src/index.ts')
    },
    // Packages in CommonJS load Node's own modules by `require`, which an ES module does not have.
    banner: {
      js: "import { createRequire as tpulabRequire } from 'node:module';\nconst require = tpulabRequire(import.meta.url);"
    },
    legalComments: 'none',
    metafile: true,
    logLevel: 'silent'
  });
  await rm(path.join(folder, SCRIPTS), { recursive: true, force: true });
  await cp(path.join(checkout.root, 'machines', SCRIPTS), path.join(folder, SCRIPTS), { recursive: true });
  await removeOldChunks(path.join(folder, CHUNKS), Object.keys(metafile.outputs));
  return Object.keys(metafile.inputs);
}

/**
 * @param {string} chunks
 * @param {readonly string[]} made files of this build
 */
async function removeOldChunks(chunks, made) {
  const names = new Set(made.map(file => path.basename(file)));
  for (const name of await readdir(chunks)) {
    const file = path.join(chunks, name);
    if (!names.has(name) && Date.now() - (await stat(file)).mtimeMs > MAX_AGE_MS) await rm(file);
  }
}

/**
 * Files of the bridge's package that it loads at run time, in its own notation: `new URL('../../…', import.meta.url)`.
 * They are the same way up from `src/x/`, from `lib/x/` and from the bundle's `lib/x/`.
 */
export async function referencedFiles() {
  /** @type {Set<string>} */
  const found = new Set();
  for (const name of PACKAGES) {
    const sources = path.join(checkout.root, name);
    for (const file of await readdir(path.join(sources, 'src'), { recursive: true })) {
      if (!file.endsWith('.ts') || file.endsWith('.spec.ts') || file.includes(`testing${path.sep}`)) continue;
      const text = await readFile(path.join(sources, 'src', file), 'utf8');
      for (const [, target = ''] of text.matchAll(
        /new URL\(\s*'((?:\.\.\/)+[^']+)',\s*import\.meta\.url\s*\)/g
      )) {
        const relative = path.relative(sources, path.resolve(sources, 'src', path.dirname(file), target));
        if (!relative.startsWith('..')) found.add(relative);
      }
    }
  }
  return [...found].sort();
}

/** @param {string} file @returns {string[]} the program's source, when the file is a compiled program */
function programOf(file) {
  const name = /^lib\/(.+)\.js$/.exec(file)?.[1];
  return name === undefined ? [] : [name];
}
