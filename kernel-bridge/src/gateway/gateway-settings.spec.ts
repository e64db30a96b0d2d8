import { afterEach, describe, expect, it, vi } from 'vitest';
import { gatewayOptions } from './gateway-settings.js';
import { resolveSettings } from '../config/resolve-settings.js';
import type { SettingKey } from '../config/settings.js';

function options(flags: Partial<Record<SettingKey, unknown>>) {
  const all = { stateDir: '/state', ...flags };
  return gatewayOptions(resolveSettings({ flags: all, env: {}, file: new Map() }).values);
}

afterEach(() => vi.unstubAllEnvs());

describe('the options of a gateway', () => {
  it('convert the units of settings', () => {
    expect(
      options({
        shutdownWaitS: 2.5,
        pingIntervalS: 1.5,
        pingTimeoutS: 9,
        backStep: 12,
        journalRetentionDays: 0.5,
        cullIdleTimeoutS: 60,
        debuggerLeaseS: 3
      })
    ).toMatchObject({
      shutdownWaitMs: 2500,
      confirmation: { heartbeatMs: 1500, silenceMs: 9000, backStep: 12 },
      journal: { retentionMs: 43_200_000 },
      culling: { idleTimeoutS: 60 },
      leases: { debuggerMs: 3000 }
    });
  });

  it.each([
    ['', '0.0.0.0'],
    ['*', '0.0.0.0'],
    ['localhost', '127.0.0.1'],
    ['::1', '::1']
  ])('understand the address %j of Jupyter as %s', (host, listened) => {
    expect(options({ host }).host).toBe(listened);
  });

  it('put the socket into the state folder when no path is named, and no socket for an empty path', () => {
    expect(options({ unixSocket: true }).unixSocket).toBe('/state/run/gateway.sock');
    expect(options({ unixSocket: '/x/y' }).unixSocket).toBe('/x/y');
    expect(options({ unixSocket: '' }).unixSocket).toBeUndefined();
    expect(options({}).unixSocket).toBeUndefined();
  });

  it('set the queue of kernels only when it is configured', () => {
    expect(options({}).env).toBeUndefined();
    expect(options({ iopubQueue: 'block' }).env).toMatchObject({ TPULAB_IOPUB_QUEUE: 'block' });
  });

  it('give kernels the queue limit in plain bytes', () => {
    const variable = 'TPULAB_IOPUB_ALARM_BYTES';
    expect(options({ iopubQueue: 'block' }).env).not.toHaveProperty(variable);
    expect(options({ iopubAlarmBytes: 0 }).env).toMatchObject({ [variable]: '0' });
    vi.stubEnv(variable, '256 MiB');
    expect(options({}).env).toMatchObject({ [variable]: String(256 * 2 ** 20) });
  });

  it('refuse a token file that does not exist', () => {
    expect(() => options({ tokenFile: '/nowhere/token' })).toThrow(/cannot be read \(ENOENT\)/);
  });
});
