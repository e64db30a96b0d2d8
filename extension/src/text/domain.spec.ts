import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const SOURCES = join(import.meta.dirname, '..');

test('every text is of the one translation domain, which a language pack names', () => {
  const domains = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })
    .filter(name => /\.tsx?$/.test(name))
    .flatMap(name => [
      ...readFileSync(join(SOURCES, name), 'utf8').matchAll(/ranslator\)?\.load\('([^']*)'/g)
    ])
    .map(([, domain]) => domain);
  expect(new Set(domains)).toEqual(new Set(['jupyterlab_tpulab']));
});
