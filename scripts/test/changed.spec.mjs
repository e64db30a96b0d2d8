// @ts-check
import { existsSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkout } from '../setup/checkout.mjs';
import { RULES, selectByChanges } from './changed.mjs';
import { PARTS } from './parts.mjs';

/** @param {readonly string[]} files */
const select = (...files) =>
  Object.fromEntries(
    [...selectByChanges(files, 'abc', () => true)]
      .filter(([part]) => part !== 'check')
      .map(([part, { files: tests }]) => [part, tests])
  );

describe('what `npm test -- --changed` runs', () => {
  it('is a test file alone where only that has changed', () => {
    expect(select('recipes/tests/ddpm/test_hosts.py')).toEqual({
      recipes: ['recipes/tests/ddpm/test_hosts.py']
    });
    expect(select('ui-tests/tests/widgets.spec.ts')).toEqual({ browser: ['ui-tests/tests/widgets.spec.ts'] });
    expect(select('kernel-agent/tests/launcher/test_launcher.py', 'tests/clients/test_access.py')).toEqual({
      agent: ['kernel-agent/tests/launcher/test_launcher.py'],
      clients: ['tests/clients/test_access.py']
    });
  });

  it('is the whole part where something has changed that its tests share', () => {
    expect(select('ui-tests/tests/fixtures.ts', 'ui-tests/tests/widgets.spec.ts')).toEqual({ browser: [] });
    expect(select('ui-tests/tests/widgets.spec.ts', 'ui-tests/tests/fixtures.ts')).toEqual({ browser: [] });
    expect(select('recipes/src/tpulab_recipes/ddpm/unet.py')).toEqual({
      recipes: [],
      notebooks: [],
      // Its networks are exported to PyTorch.
      torch: []
    });
  });

  it('is the browser tests of a feature, and none of them where only its specs have changed', () => {
    expect(select('extension/src/remotes/model.ts')).toEqual({
      unit: [],
      browser: ['remotes', 'remote-faults', 'newcomer'].map(name => `ui-tests/tests/${name}.spec.ts`)
    });
    expect(select('extension/src/remotes/model.spec.ts')).toEqual({ unit: [] });
    expect(select('extension/src/tokens.ts')).toEqual({ unit: [], browser: [] });
  });

  it('is nothing but the checks for a page of the docs, and no test file that was removed', () => {
    expect(select('docs/develop.md')).toEqual({});
    expect([...selectByChanges(['ui-tests/tests/gone.spec.ts'], 'abc', () => false).keys()]).toEqual([
      'check'
    ]);
  });

  it('names existing parts, and existing files in each rule', () => {
    const known = PARTS.map(({ name }) => name);
    expect(RULES.flatMap(({ parts }) => parts).filter(name => !known.includes(name))).toEqual([]);
    expect(known.filter(name => !RULES.some(({ parts }) => parts.includes(name)))).toEqual([]);
    const files = RULES.flatMap(({ files: named = [] }) => named).filter(file => file !== '$&');
    expect(files.filter(file => !existsSync(path.join(checkout.root, file)))).toEqual([]);
  });
});
