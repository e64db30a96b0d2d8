/**
 * The keeper's program, built from the current sources, for tests that start it as a process. Nothing is checked
 * and nothing else is built, so this is fast and cannot be out of date.
 */
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ModuleKind, preProcessFile, ScriptTarget, transpileModule } from 'typescript';

const SOURCES = fileURLToPath(new URL('../../', import.meta.url));
const MAIN = join(SOURCES, 'keeper', 'main.ts');
/** In a `node_modules` folder, so that the build finds its packages and git ignores it. */
const CACHE = fileURLToPath(new URL('../../../../node_modules/.cache/tpulab-keeper/', import.meta.url));

/** The entry for `startKeeper`. Builds of the same sources share a folder. */
export async function builtKeeper(): Promise<URL> {
  const files = await reachable(MAIN);
  const hash = createHash('sha256');
  for (const [file, code] of files) {
    hash.update(relative(SOURCES, file)).update(code);
  }
  const target = join(CACHE, hash.digest('hex').slice(0, 16));
  const entry = join(target, 'keeper', 'main.js');
  if (!(await isThere(entry))) {
    await mkdir(CACHE, { recursive: true });
    const draft = await mkdtemp(join(CACHE, 'draft-'));
    await writeFile(join(draft, 'package.json'), '{"type":"module"}');
    const compilerOptions = {
      module: ModuleKind.ESNext,
      target: ScriptTarget.ES2022,
      verbatimModuleSyntax: true
    };
    for (const [file, code] of files) {
      const output = join(draft, relative(SOURCES, file).replace(/\.ts$/, '.js'));
      await mkdir(dirname(output), { recursive: true });
      await writeFile(output, transpileModule(code, { compilerOptions }).outputText);
    }
    // Another test file may have been faster; then its build stays.
    await rename(draft, target).catch(() => rm(draft, { recursive: true, force: true }));
  }
  return pathToFileURL(entry);
}

/** A source file and all our files that it imports, in the order of discovery. */
async function reachable(entry: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  const queue = [entry];
  for (let file = queue.shift(); file !== undefined; file = queue.shift()) {
    if (found.has(file)) {
      continue;
    }
    const code = await readFile(file, 'utf8');
    found.set(file, code);
    for (const { fileName } of preProcessFile(code).importedFiles) {
      if (fileName.startsWith('.')) {
        queue.push(join(dirname(file), fileName.replace(/\.js$/, '.ts')));
      }
    }
  }
  return found;
}

async function isThere(file: string): Promise<boolean> {
  return readFile(file).then(
    () => true,
    () => false
  );
}
