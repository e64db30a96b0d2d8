// @ts-check
import { expect, it } from 'vitest';
import { requireNode } from './node-version.mjs';

it.each(['20.19.0', '20.20.2', '22.0.0', '24.11.1'])('Node %s is accepted', version => {
  expect(() => requireNode(version)).not.toThrow();
});

it.each(['20.18.3', '18.20.0', '16.1.0'])('Node %s is refused, with what to install', version => {
  expect(() => requireNode(version)).toThrow(/needs 20\.19 or newer.*start again\./);
});
