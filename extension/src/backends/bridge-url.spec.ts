import { expect, test } from 'vitest';
import { bridgeUrlsFor } from './bridge-url.js';

test('prefers the other loopback name, so that no cookie of the page travels', () => {
  expect(bridgeUrlsFor('http://127.0.0.1:9/', '127.0.0.1')).toEqual([
    'http://localhost:9/',
    'http://127.0.0.1:9/'
  ]);
  expect(bridgeUrlsFor('http://127.0.0.1:9/', 'localhost')).toEqual(['http://127.0.0.1:9/']);
  expect(bridgeUrlsFor('http://localhost:9/', 'localhost')).toEqual([
    'http://127.0.0.1:9/',
    'http://localhost:9/'
  ]);
  expect(bridgeUrlsFor('http://127.0.0.1:9/', '[::1]')).toEqual(['http://127.0.0.1:9/']);
});

test('leaves the address alone when page or bridge are not on loopback', () => {
  expect(bridgeUrlsFor('http://127.0.0.1:9/', 'lab.example')).toEqual(['http://127.0.0.1:9/']);
  expect(bridgeUrlsFor('http://vm.example:9/x', '127.0.0.1')).toEqual(['http://vm.example:9/x/']);
});
