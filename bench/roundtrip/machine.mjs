// @ts-check
/** What the figures were measured on, without names or paths of the machine. */
import { execFileSync } from 'node:child_process';
import { arch, availableParallelism, cpus, platform, release, totalmem } from 'node:os';

/** @param {string} labPython Python of the JupyterLab environment */
export function machineFacts(labPython) {
  return {
    measuredAt: new Date().toISOString(),
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${platform()} ${release().split('-')[0] ?? ''} ${arch()}`,
    node: process.version,
    jupyterServer: versionOf(labPython, 'jupyter_server'),
    commit: git('rev-parse', '--short', 'HEAD'),
    changed: git('status', '--porcelain', '--', 'kernel-bridge', 'kernel-agent') !== ''
  };
}

/**
 * @param {string} python
 * @param {string} distribution
 */
export function versionOf(python, distribution) {
  const code = `from importlib.metadata import version; print(version("${distribution}"))`;
  return execFileSync(python, ['-c', code], { encoding: 'utf8' }).trim();
}

/** @param {string[]} words */
function git(...words) {
  return execFileSync('git', words, { encoding: 'utf8' }).trim();
}
