import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { EXIT, hostScript, script } from './host-scripts.js';

const FOLDER = fileURLToPath(new URL('../../host/', import.meta.url));
const SHELLS = ['/bin/dash', '/bin/bash', '/bin/busybox'].filter(existsSync);

describe('the scripts for hosts', () => {
  it('use the exit codes that this package expects', () => {
    const codes = [...script('preamble.sh').matchAll(/exit_(\w+)=(\d+)/g)].map(([, name = '', code]) => [
      name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
      Number(code)
    ]);
    expect(Object.fromEntries(codes)).toEqual(EXIT);
  });

  it.each(readdirSync(FOLDER).filter(name => name.endsWith('.sh')))('%s is accepted by every shell', name => {
    expect(SHELLS.length).toBeGreaterThan(0);
    for (const shell of SHELLS) {
      const args = shell.endsWith('busybox') ? ['sh', '-n'] : ['-n'];
      const { status, stderr } = spawnSync(shell, args, { input: script(name), encoding: 'utf8' });
      expect([shell, status, stderr]).toEqual([shell, 0, '']);
    }
  });

  it('define every variable that they use', () => {
    for (const name of ['download', 'unpack', 'python', 'environment', 'start'] as const) {
      const text = hostScript(name);
      for (const [, used = ''] of text.matchAll(/\$((?:exit|turn|retention)_\w+)/g))
        expect(text).toContain(`${used}=`);
    }
  });
});
