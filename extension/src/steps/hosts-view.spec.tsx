// @vitest-environment jsdom
import type { HostsMessage } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { reactPlace } from '../testing/react-place.js';
import { HostsView } from './hosts-view.js';

const hostOf = (host: number, inputMs: number, lateMs = 0): HostsMessage['hosts'][number] => ({
  host,
  name: `host ${host} (me@10.0.0.${host})`,
  wallMs: 30,
  inputMs,
  hostMs: 3,
  compileMs: 0,
  gapMs: 0,
  deviceMs: 27 - inputMs,
  lateMs
});
const messageOf = (hosts: HostsMessage['hosts'], straggler: HostsMessage['straggler']): HostsMessage => ({
  type: 'hosts',
  time: 1,
  run: 'a',
  step: 40,
  compared: 20,
  hosts,
  straggler
});

describe('the steps by host', () => {
  const place = reactPlace();
  const show = (hosts: HostsMessage): void => place.show(<HostsView hosts={hosts} />);

  it('name the host that the others wait for, and why', () => {
    const late = { host: 2, lateMs: 18, cause: 'input' } as const;
    show(messageOf([hostOf(0, 2), hostOf(1, 2), hostOf(2, 20, 18)], late));
    expect(place.host.textContent).toContain(
      'Host 2 is 18.0 ms later at each step: input. The others wait for it.'
    );
    const rows = [...place.host.querySelectorAll('li')];
    expect(rows.map(({ title }) => title)).toEqual([
      'host 0 (me@10.0.0.0): input 2.00 ms, host 3.00 ms, device 25.0 ms',
      'host 1 (me@10.0.0.1): input 2.00 ms, host 3.00 ms, device 25.0 ms',
      'host 2 (me@10.0.0.2): input 20.0 ms, host 3.00 ms, device 7.00 ms'
    ]);
    expect(rows[2]?.className).toContain('jp-mod-late');
    expect(rows[2]?.textContent).toContain('+18.0 ms');
  });

  it('report that no host is waited for', () => {
    show(messageOf([hostOf(0, 2), hostOf(1, 3)], null));
    expect(place.host.textContent).toContain('No host keeps the others waiting.');
  });

  it('show the latest of many hosts', () => {
    const hosts = Array.from({ length: 64 }, (_, index) => hostOf(index, 2, index === 40 ? 9 : 0));
    show(messageOf(hosts, { host: 40, lateMs: 9, cause: 'host' }));
    expect(place.host.querySelectorAll('li')).toHaveLength(8);
    expect(place.host.querySelector('li')?.textContent).toContain('host 40');
    expect(place.host.textContent).toContain('56 more hosts');
  });
});
