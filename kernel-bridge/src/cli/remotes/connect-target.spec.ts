import { isSameMachine } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { reachOf, sourceOf, sourceText } from './connect-target.js';

const machine = (options: object, target = 'gcloud:instance/us-east5-b/my-tpu') => sourceOf(target, options);

describe('the way to a machine of Google Cloud', () => {
  it.each([
    [{}, undefined, {}],
    [{ externalIp: true }, 'external', {}],
    [{ internalIp: true }, 'internal', { internalIp: true }],
    [{ iap: true }, 'iap', { tunnelThroughIap: true }]
  ] as const)('with %j is %s', (options, reach, flags) => {
    expect(reachOf(options)).toBe(reach);
    expect(machine(options)).toEqual({
      ...{ kind: 'gcloud', product: 'instance', name: 'my-tpu', zone: 'us-east5-b' },
      ...flags
    });
  });

  it('does not make it another machine; another zone, project or product does', () => {
    expect(isSameMachine(machine({}), machine({ iap: true }))).toBe(true);
    expect(isSameMachine(machine({}), machine({ project: 'p' }))).toBe(false);
    expect(isSameMachine(machine({}), machine({}, 'gcloud:us-east5-b/my-tpu'))).toBe(false);
    expect(isSameMachine(machine({}), machine({}, 'gcloud:instance/us-east5-a/my-tpu'))).toBe(false);
    expect(isSameMachine(machine({}), sourceOf('my-tpu', {}))).toBe(false);
    expect(isSameMachine(sourceOf('vm', {}), sourceOf('vm', {}))).toBe(true);
  });

  it('is shown with the remote', () => {
    expect(sourceText(machine({}))).toBe('gcloud:instance/us-east5-b/my-tpu');
    expect(sourceText(machine({ iap: true, project: 'p' }))).toBe(
      'gcloud:instance/us-east5-b/my-tpu (p) --iap'
    );
  });
});
