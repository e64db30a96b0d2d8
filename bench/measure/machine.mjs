// @ts-check
/** The machine of the figures, without its names or paths. */
import { execFileSync } from 'node:child_process';
import { arch, availableParallelism, cpus, loadavg, platform, release, totalmem } from 'node:os';

export function machineFacts() {
  return {
    measuredAt: new Date().toISOString(),
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${platform()} ${release().split('-')[0] ?? ''} ${arch()}`,
    node: process.version,
    /** Load before the run, in cores: above 0.3 the machine was doing something else. */
    loadBefore: Math.round((loadavg()[0] ?? 0) * 100) / 100,
    commit: git('rev-parse', '--short', 'HEAD'),
    changed: git('status', '--porcelain', '--', 'kernel-bridge', 'kernel-agent') !== ''
  };
}

/**
 * Versions of the compared packages, without those that are not installed.
 * @param {string} python
 * @param {readonly string[]} distributions
 * @returns {Record<string, string>}
 */
export function versionsOf(python, distributions) {
  const code = `
import json, sys
from importlib.metadata import PackageNotFoundError, version
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
print(json.dumps(found))
`;
  return JSON.parse(execFileSync(python, ['-c', code, ...distributions], { encoding: 'utf8' }));
}

/** @param {string[]} words */
function git(...words) {
  return execFileSync('git', words, { encoding: 'utf8' }).trim();
}
