// @ts-check
/** Finds the Python for the environments. */
import { run } from './run-command.mjs';
import { Interrupted, SetupProblem } from './setup-problem.mjs';

/** The lock files are made for these. The newest installed one is used: JAX 0.12 needs 3.12, and 3.11 gets JAX 0.10. */
const NAMES = ['python3.13', 'python3.12', 'python3.11', 'python3', 'python'];

const PROBE = `
import sys, sysconfig
print(sys.executable, *sys.version_info[:2], sysconfig.get_config_var("Py_GIL_DISABLED") or 0, sep="\\n")
try:
    import ensurepip, venv
    print("venv")
except ImportError:
    print("no venv")
`;

/**
 * @typedef {object} Python
 * @property {string} path
 * @property {string} version major and minor
 */

/**
 * @param {AbortSignal} [signal]
 * @param {readonly string[]} [names] programs to try, first to last; `TPULAB_PYTHON` comes before them
 * @returns {Promise<Python>}
 */
export async function findPython(signal, names = NAMES) {
  const named = process.env['TPULAB_PYTHON'];
  /** @type {string[]} */
  const seen = [];
  let withoutVenv = null;
  for (const name of named ? [named] : names) {
    const found = await probe(name, signal);
    if (!found) continue;
    const { path, major, minor, freeThreaded, hasVenv } = found;
    const version = `${major}.${minor}`;
    if (major !== 3 || minor < 11 || minor > 13 || freeThreaded) seen.push(version);
    else if (!hasVenv) withoutVenv = version;
    else return { path, version };
  }
  if (withoutVenv !== null) {
    throw new SetupProblem(
      'python-without-venv',
      `Python ${withoutVenv} is installed, but its module venv is not; install it (Debian, Ubuntu: apt install python${withoutVenv}-venv) and start again.`
    );
  }
  const what =
    seen.length === 0 ? 'No Python 3 was found' : `Only Python ${[...new Set(seen)].join(', ')} was found`;
  throw new SetupProblem(
    'wrong-python',
    `${what}, and the notebooks need 3.11, 3.12 or 3.13; install one (or name it with TPULAB_PYTHON) and start again.`
  );
}

/**
 * @param {string} name
 * @param {AbortSignal} [signal]
 */
async function probe(name, signal) {
  let ended;
  try {
    ended = await run(name, ['-I', '-c', PROBE], { timeoutMs: 30_000, ...(signal ? { signal } : {}) });
  } catch (error) {
    if (error instanceof Interrupted) throw error;
    return null;
  }
  const [path, major, minor, freeThreaded, venv] = ended.stdout;
  if (ended.exitCode !== 0 || !path) return null;
  return {
    path,
    major: Number(major),
    minor: Number(minor),
    freeThreaded: freeThreaded === '1',
    hasVenv: venv === 'venv'
  };
}
