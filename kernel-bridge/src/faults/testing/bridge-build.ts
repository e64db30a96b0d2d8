/**
 * The whole bridge, built from the current sources into a separate folder, so that a run is neither out of date nor
 * disturbed by a concurrent build. Nothing is type-checked, so it is fast. A build can have a different version (for an
 * upgrade), and a clock that can be shifted.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { transform } from 'esbuild';

const CHECKOUT = fileURLToPath(new URL('../../../../', import.meta.url));
/** The checkout whose bridge is tested: this one, or another version beside it. */
const SOURCES = process.env['TPULAB_FAULTS_SOURCES'] || CHECKOUT;
/** The agent of those sources, which kernels load instead of the installed one. */
export const AGENT_SOURCES = path.join(SOURCES, 'kernel-agent', 'src');
/** In a `node_modules` folder, so that the build finds its packages and git ignores it. */
const CACHE = path.join(CHECKOUT, 'node_modules', '.cache', 'tpulab-faults');
/** Our packages, and their places in a build. */
const PACKAGES = [
  ['protocol', 'node_modules/@tpulab/protocol'],
  ['platform', 'node_modules/@tpulab/platform'],
  ['machines', 'node_modules/@tpulab/machines'],
  ['kernel-bridge', 'kernel-bridge']
] as const;
const COMPILER = {
  loader: 'ts',
  target: 'es2022',
  tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true } }
} as const;
/** Programs of the bridge; where the clock can be shifted, they load the shift first. */
const ENTRIES = ['cli/main.js', 'keeper/main.js'];

interface BuildOptions {
  /** Replaces the version of the sources. */
  readonly version?: string;
  readonly shiftedClock?: boolean;
  /** SIGUSR2 makes a process write down its resource use. */
  readonly sampled?: boolean;
  /** Each sync is recorded beside the state folder, for `powerLoss`. Linux only. */
  readonly syncsNoted?: boolean;
  /**
   * Every write to the state folder fails while the file `refusal` beside that folder contains the name of a system error;
   * if a part of a call's name follows (`EIO sync`), only such calls fail. Linux only.
   */
  readonly refusing?: boolean;
}

/** The `tpulab` program of a build. Builds of the same sources share a folder. */
export async function bridgeBuild(options: BuildOptions = {}): Promise<string> {
  const sources = new Map<string, string>();
  for (const [name, place] of PACKAGES) {
    for (const [file, code] of await packageSources(name, place)) sources.set(file, code);
  }
  const hash = createHash('sha256').update(JSON.stringify(options));
  for (const [file, code] of sources) hash.update(file).update(code);
  const target = path.join(CACHE, hash.digest('hex').slice(0, 16));
  const program = path.join(target, 'kernel-bridge', 'bin', 'tpulab.js');
  if (!existsSync(program)) {
    await mkdir(CACHE, { recursive: true });
    const draft = await mkdtemp(path.join(CACHE, 'draft-'));
    await write(draft, sources, options);
    // Another test file may have been faster; then its build is used.
    await rename(draft, target).catch(() => rm(draft, { recursive: true, force: true }));
  }
  return program;
}

/** Files of one of our packages, by their path in a build. */
async function packageSources(name: string, place: string): Promise<[string, string][]> {
  const folder = path.join(SOURCES, name);
  // Another version may have fewer packages.
  if (!existsSync(folder)) return [];
  const files = ['package.json'];
  for (const part of ['bin', 'proto', 'host'].filter(one => existsSync(path.join(folder, one)))) {
    files.push(...(await readdir(path.join(folder, part))).map(file => `${part}/${file}`));
  }
  for (const entry of await readdir(path.join(folder, 'src'), { recursive: true })) {
    const file = entry.split(path.sep).join('/');
    const isProgram = file.endsWith('.ts') && !/\.spec\.ts$|\.spec-[a-z]+\.ts$|(^|\/)testing\//.test(file);
    if (isProgram) files.push(`src/${file}`);
  }
  return Promise.all(
    files
      .sort()
      .map(
        async file =>
          [`${place}/${file}`, await readFile(path.join(folder, file), 'utf8')] as [string, string]
      )
  );
}

async function write(folder: string, sources: Map<string, string>, options: BuildOptions): Promise<void> {
  await Promise.all(
    [...sources].map(async ([file, code]) => {
      const target = path.join(folder, file.replace('/src/', '/lib/').replace(/\.ts$/, '.js'));
      await mkdir(path.dirname(target), { recursive: true });
      await writeFile(target, await outputOf(file, code, options));
    })
  );
  for (const [name, place] of PACKAGES) {
    const own = path.join(CHECKOUT, name, 'node_modules');
    if (existsSync(own) && existsSync(path.join(folder, place))) {
      await symlink(own, path.join(folder, place, 'node_modules'));
    }
  }
  const preludes = [
    ...(options.shiftedClock ? [SHIFTED_CLOCK] : []),
    ...(options.sampled ? [SAMPLER] : []),
    ...(options.syncsNoted ? [SYNC_NOTES] : []),
    ...(options.refusing ? [REFUSAL] : [])
  ];
  if (preludes.length === 0) return;
  const lib = path.join(folder, 'kernel-bridge', 'lib');
  await writeFile(path.join(lib, 'prelude.js'), [STATE_FOLDER, ...preludes].join(''));
  for (const entry of ENTRIES) {
    const file = path.join(lib, entry);
    await writeFile(file, `import '../prelude.js';\n${await readFile(file, 'utf8')}`);
  }
}

async function outputOf(file: string, code: string, { version }: BuildOptions): Promise<string> {
  if (file.endsWith('package.json') && version !== undefined) {
    return JSON.stringify({ ...(JSON.parse(code) as object), version });
  }
  return file.endsWith('.ts') ? (await transform(code, COMPILER)).code : code;
}

/** Finds the state folder: the gateway gets it as an argument, and a keeper gets the folder of its kernel, which is in it. */
const STATE_FOLDER = `
import { appendFileSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
const at = process.argv.indexOf('--state-dir');
const folders = process.argv.filter(argument => argument.includes('/kernels/'));
const state = at < 0 ? join(folders.at(-1) ?? '', '..', '..') : process.argv[at + 1];
`;

/**
 * Shifts the wall clock of a process by the milliseconds in the file `clock` of the state folder; SIGUSR2 makes it read the
 * file again. The monotonic clock does not change, as when a machine's clock is set.
 */
const SHIFTED_CLOCK = `
const file = join(state, 'clock');
const RealDate = Date;
let shift = 0;
const read = () => {
  try {
    shift = Number(readFileSync(file, 'utf8'));
  } catch {
    shift = 0;
  }
};
globalThis.Date = class extends RealDate {
  constructor(...given) {
    if (given.length === 0) super(RealDate.now() + shift);
    else super(...given);
  }
  static now() {
    return RealDate.now() + shift;
  }
};
process.on('SIGUSR2', read);
read();
`;

/** Writes each sample as a line of `samples/PID` in the state folder; memory is measured after a collection. */
const SAMPLER = `
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc');
mkdirSync(join(state, 'samples'), { recursive: true });
process.on('SIGUSR2', () => {
  collect();
  const { rss, heapUsed, external } = process.memoryUsage();
  const resources = process.getActiveResourcesInfo();
  const timers = resources.filter(name => name === 'Timeout').length;
  const descriptors = readdirSync('/dev/fd').length;
  const sample = { at: performance.now(), rss, held: heapUsed + external, timers, handles: resources.length - timers, descriptors };
  appendFileSync(join(state, 'samples', String(process.pid)), JSON.stringify(sample) + '\\n');
});
`;

/** A sync covers the contents of the file or folder at its start; it counts once it has ended. */
const SYNC_NOTES = `
import fs from 'node:fs';
import { open } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
const covered = fd => {
  const path = fs.readlinkSync('/proc/self/fd/' + fd);
  const { ino, birthtimeMs, size } = fs.fstatSync(fd);
  const isFolder = fs.fstatSync(fd).isDirectory();
  const entries = isFolder ? fs.readdirSync(path).map(name => [name, fs.statSync(join(path, name)).ino]) : null;
  return { path, ino, birthtimeMs, size, entries };
};
const note = found => {
  const folder = at < 0 ? found.path.split('/kernels/')[0] : state;
  appendFileSync(folder + '.syncs', JSON.stringify(found) + '\\n');
};
for (const name of ['fsync', 'fdatasync']) {
  const real = fs[name];
  fs[name] = (fd, done) => {
    const found = covered(fd);
    real(fd, error => {
      if (!error) note(found);
      done(error);
    });
  };
}
syncBuiltinESMExports();
const handle = await open('/dev/null');
const FileHandle = Object.getPrototypeOf(handle);
await handle.close();
for (const name of ['sync', 'datasync']) {
  const real = FileHandle[name];
  FileHandle[name] = async function () {
    const found = covered(this.fd);
    await real.call(this);
    note(found);
  };
}
`;

/** Simulates a full, broken or read-only disk, which refuses every open, write, sync, create or rename. */
const REFUSAL = `
import fs from 'node:fs';
import files from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
const refusalOf = target => {
  const path = typeof target === 'number' ? fs.readlinkSync('/proc/self/fd/' + target) : String(target);
  const folder = at < 0 ? path.split('/kernels/')[0] : state;
  if (!path.startsWith(folder + '/')) return null;
  try {
    return readFileSync(join(folder, '..', 'refusal'), 'utf8').trim() || null;
  } catch {
    return null;
  }
};
const check = (name, target) => {
  const [code = null, only = name] = refusalOf(target)?.split(' ') ?? [];
  if (code !== null && name.includes(only)) throw Object.assign(new Error(code + ': refused, ' + name), { code, syscall: name });
};
const writes = flags => typeof flags === 'number' || !/^(r|rs)$/.test(flags ?? 'r');
const isWriting = (name, given) => !name.startsWith('open') || writes(given[1]);
const wrap = (owner, name, targetOf = ([first]) => first) => {
  const real = owner[name];
  owner[name] = function (...given) {
    if (isWriting(name, given)) check(name, targetOf(given, this));
    return real.apply(this, given);
  };
};
for (const name of ['open', 'write', 'writev', 'writeFile', 'appendFile', 'mkdir', 'rename', 'ftruncate', 'fsync', 'fdatasync'])
  wrap(fs, name + 'Sync');
const { fdatasync } = fs;
fs.fdatasync = (fd, done) => {
  try {
    check('fdatasync', fd);
  } catch (error) {
    setImmediate(done, error);
    return;
  }
  fdatasync(fd, done);
};
const wrapAsync = (owner, name, targetOf) => {
  const real = owner[name];
  owner[name] = async function (...given) {
    if (isWriting(name, given)) check(name, targetOf(given, this));
    return real.apply(this, given);
  };
};
for (const name of ['open', 'writeFile', 'appendFile', 'mkdir', 'rename', 'truncate'])
  wrapAsync(files, name, ([first]) => first);
syncBuiltinESMExports();
const probe = await files.open('/dev/null');
const Handle = Object.getPrototypeOf(probe);
await probe.close();
for (const name of ['write', 'writev', 'writeFile', 'sync', 'datasync']) wrapAsync(Handle, name, (_given, handle) => handle.fd);
`;
