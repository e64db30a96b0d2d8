import { expect, test } from 'vitest';
import { sourceOf } from './target.js';

test.each(['tpu', 'ada@10.0.0.1', ' ada@host ', 'ssh://ada@host:2222', 'ada@[fe80::1]'])('takes %s', text => {
  expect(sourceOf(text)).toEqual({ kind: 'ssh', destination: text.trim() });
});

test.each(['', ' ', '-oProxyCommand=x', 'a b', 'host;reboot', '$(x)', 'h`x`'])('refuses "%s"', text => {
  expect(sourceOf(text)).toBeNull();
});
