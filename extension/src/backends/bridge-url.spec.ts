import { expect, test } from 'vitest';
import { addressesFor, bridgeUrlsFor } from './bridge-backend.js';

test('prefers the other loopback name, so that the page sends no cookie', () => {
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

test('a page on another machine uses its own server, and only if that server passes requests on', () => {
  const direct = { url: 'http://127.0.0.1:8890/', token: 't' };
  const far = { base: 'https://hub.example/user/ada/', pageHostname: 'hub.example' };
  expect(addressesFor(null, 'tpulab/gateway/', far)).toEqual([
    { url: 'https://hub.example/user/ada/tpulab/gateway/', token: '', isProxied: true }
  ]);
  expect(addressesFor(direct, 'tpulab/gateway/', far)).toHaveLength(1);
  expect(addressesFor(direct, null, far)).toEqual([direct]);
  const near = { base: 'http://localhost:8888/', pageHostname: 'localhost' };
  expect(addressesFor(direct, 'tpulab/gateway/', near)[0]).toEqual(direct);
});
