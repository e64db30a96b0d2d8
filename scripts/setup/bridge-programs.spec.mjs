import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { checkout } from './checkout.mjs';

it('has no program that loads a package late by its name: of one in CommonJS, the bundle would hand out the default alone', () => {
  const sources = path.join(checkout.root, 'kernel-bridge', 'src');
  const late = readdirSync(sources, { recursive: true, encoding: 'utf8' })
    .filter(file => /\.ts$/.test(file) && !/\.spec\.ts$|[\\/]testing[\\/]/.test(file))
    .filter(file => /import\(\s*'(?!\.|node:)/.test(readFileSync(path.join(sources, file), 'utf8')));
  expect(late).toEqual([]);
});
