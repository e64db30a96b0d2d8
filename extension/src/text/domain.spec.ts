import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const SOURCES = [join(import.meta.dirname, '..'), join(import.meta.dirname, '../../session')];

test('every text belongs to the one translation domain, which a language pack names', () => {
  const domains = SOURCES.flatMap(folder =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).map(name => join(folder, name))
  )
    .filter(file => /\.tsx?$/.test(file))
    .flatMap(file => [...readFileSync(file, 'utf8').matchAll(/ranslator\)?\.load\('([^']*)'/g)])
    .map(([, domain]) => domain);
  expect(new Set(domains)).toEqual(new Set(['jupyterlab_tpulab']));
});
