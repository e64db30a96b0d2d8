import { expect, test } from 'vitest';
import { isCloud, sourceOf } from './target.js';

test.each(['tpu', 'ada@10.0.0.1', ' ada@host ', 'ssh://ada@host:2222'])('takes %s', text => {
  expect(sourceOf(text)).toEqual({ kind: 'ssh', destination: text.trim() });
});

// ssh itself accepts no brackets.
test('accepts an IPv6 address without its brackets', () => {
  expect(sourceOf('ada@[fe80::1]')).toEqual({ kind: 'ssh', destination: 'ada@fe80::1' });
});

test.each(['', ' ', '-oProxyCommand=x', 'a b', 'host;reboot', '$(x)', 'h`x`'])('refuses "%s"', text => {
  expect(sourceOf(text)).toBeNull();
});

test.each([
  ['gcloud:us-east5-b/my-tpu', 'tpu-vm', 'my-tpu'],
  [' gcloud:queued-resource/us-east5-b/q ', 'queued-resource', 'q'],
  ['gcloud:instance-group/us-east5-b/g', 'instance-group', 'g']
])('takes %s as a machine of Google Cloud', (text, product, name) => {
  expect(sourceOf(text)).toEqual({ kind: 'gcloud', product, name, zone: 'us-east5-b' });
});

test.each([
  ['gcloud:my-tpu', 'tpu-vm', 'my-tpu'],
  ['gcloud:instance/x', 'instance', 'x'],
  ['gcloud:queued-resource', 'tpu-vm', 'queued-resource']
])('takes %s without a zone, which the gateway finds', (text, product, name) => {
  expect(sourceOf(text)).toEqual({ kind: 'gcloud', product, name });
});

test.each([
  'gcloud:',
  'gcloud:a/b/c',
  'gcloud:zone/',
  'gcloud:instance/',
  'gcloud:zone/-x',
  'gcloud:instance/a/b/c'
])('takes %s neither as a host nor as a machine: it names none', text => {
  expect(sourceOf(text)).toBeNull();
  expect(isCloud(text)).toBe(true);
});
