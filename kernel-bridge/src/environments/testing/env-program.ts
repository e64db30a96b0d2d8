/** `tpulab env` as a process, built from the current sources, for tests that end it in the middle. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { ModuleKind, ScriptTarget, transpileModule } from 'typescript';

const SOURCES = fileURLToPath(new URL('../../', import.meta.url));
/** The command and its imports from the bridge. */
const FOLDERS = ['environments', 'devices', 'platform'];
/** Below a `node_modules`, so that packages are found and git ignores it. */
const CACHE = fileURLToPath(new URL('../../../../node_modules/.cache/', import.meta.url));

export interface EnvProgram extends AsyncDisposable {
  start(args: readonly string[], env: Readonly<Record<string, string>>): ChildProcess;
}

export async function envProgram(): Promise<EnvProgram> {
  await mkdir(CACHE, { recursive: true });
  const folder = await mkdtemp(path.join(CACHE, 'tpulab-env-'));
  await writeFile(path.join(folder, 'package.json'), '{"type":"module"}');
  const compilerOptions = {
    module: ModuleKind.ESNext,
    target: ScriptTarget.ES2022,
    verbatimModuleSyntax: true
  };
  for (const part of FOLDERS) {
    await mkdir(path.join(folder, part));
    for (const file of await readdir(path.join(SOURCES, part))) {
      if (!file.endsWith('.ts') || file.endsWith('.spec.ts')) continue;
      const code = await readFile(path.join(SOURCES, part, file), 'utf8');
      const { outputText } = transpileModule(code, { compilerOptions });
      await writeFile(path.join(folder, part, file.replace(/\.ts$/, '.js')), outputText);
    }
  }
  const entry = path.join(folder, 'run.mjs');
  await writeFile(
    entry,
    "import { envCommand } from './environments/command.js';\nawait envCommand().parseAsync();\n"
  );
  return {
    start: (args, env) =>
      spawn(process.execPath, [entry, ...args], {
        env: { ...process.env, ...env },
        stdio: ['ignore', 'pipe', 'pipe']
      }),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true })
  };
}

/** Resolves with its output and its exit. */
export async function ended(
  child: ChildProcess
): Promise<{ code: number | null; signal: string | null; stdout: string; stderr: string }> {
  let stdout = '';
  let stderr = '';
  child.stdout?.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      resolve({ code, signal, stdout, stderr });
    });
  });
}
