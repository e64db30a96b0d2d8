import { describe, expect, it } from 'vitest';
import { kernelEnv, WITHHELD_VARIABLES } from './kernel-env.js';

const spec = { env: {}, envDefaults: {} };

describe('kernelEnv', () => {
  it.each(WITHHELD_VARIABLES)("[5] %s of the gateway's environment does not reach a kernel", name => {
    expect(kernelEnv({ gateway: { [name]: 'x' }, spec, kernelId: 'k' })).toEqual({ TPULAB_KERNEL_ID: 'k' });
  });

  it("[5] npm's configuration, which may hold credentials, does not reach a kernel", () => {
    const gateway = { npm_config__auth: 'x', npm_lifecycle_event: 'start' };
    expect(kernelEnv({ gateway, spec, kernelId: 'k' })).toEqual({ TPULAB_KERNEL_ID: 'k' });
  });

  it("the user's own variables reach a kernel, keys of other services included", () => {
    const gateway = { HOME: '/home/u', HF_TOKEN: 'h', EMPTY: '', ABSENT: undefined };
    expect(kernelEnv({ gateway, spec, kernelId: 'k' })).toEqual({
      HOME: '/home/u',
      HF_TOKEN: 'h',
      EMPTY: '',
      TPULAB_KERNEL_ID: 'k'
    });
  });

  it('[5] passes only KERNEL_* of the request', () => {
    const request = { KERNEL_USERNAME: 'ada', PATH: '/evil', LD_PRELOAD: 'x', kernel_x: 'y' };
    const env = kernelEnv({ gateway: { PATH: '/bin' }, spec, request, kernelId: 'k' });
    expect(env).toEqual({ PATH: '/bin', KERNEL_USERNAME: 'ada', TPULAB_KERNEL_ID: 'k' });
  });

  it("the user's variables override a default of the kernelspec, but not a value of its env", () => {
    const both = { env: { B: 'spec' }, envDefaults: { A: '8', C: '8' } };
    const env = kernelEnv({ gateway: { A: '2', B: 'user' }, spec: both, kernelId: 'k' });
    expect(env).toMatchObject({ A: '2', B: 'spec', C: '8' });
  });

  it('variables in the env of a kernelspec are expanded, unknown ones stay unchanged', () => {
    const filled = {
      env: { P: '${PATH}:/x', Q: '$PATH', R: '${NONE}', S: '100%', T: '$$PATH' },
      envDefaults: {}
    };
    const env = kernelEnv({ gateway: { PATH: '/bin' }, spec: filled, kernelId: 'k' });
    expect(env).toMatchObject({ P: '/bin:/x', Q: '/bin', R: '${NONE}', S: '100%', T: '$PATH' });
  });

  it('a kernelspec cannot read the token of the gateway by naming it', () => {
    const curious = { env: { T: '${TPULAB_TOKEN}' }, envDefaults: {} };
    expect(kernelEnv({ gateway: { TPULAB_TOKEN: 's' }, spec: curious, kernelId: 'k' })['T']).toBe(
      '${TPULAB_TOKEN}'
    );
  });
});
