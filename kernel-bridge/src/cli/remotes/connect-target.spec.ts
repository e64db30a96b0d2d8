import { isSameMachine } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { explainGcloud, type Gcloud } from '../../../../machines/src/gcloud/gcloud.js';
import { reachOf, sourceOf, sourceText, withZone } from './connect-target.js';

const machine = (options: object, target = 'gcloud:instance/us-east5-b/my-tpu') => sourceOf(target, options);

describe('the access path to a machine of Google Cloud', () => {
  it.each([
    [{}, undefined, {}],
    [{ externalIp: true }, 'external', {}],
    [{ internalIp: true }, 'internal', { internalIp: true }],
    [{ tunnelThroughIap: true }, 'iap', { tunnelThroughIap: true }]
  ] as const)('with %j is %s', (options, reach, flags) => {
    expect(reachOf(options)).toBe(reach);
    expect(machine(options)).toEqual({
      ...{ kind: 'gcloud', product: 'instance', name: 'my-tpu', zone: 'us-east5-b' },
      ...flags
    });
  });

  it('does not make it another machine, unlike another zone, project or product', () => {
    expect(isSameMachine(machine({}), machine({ tunnelThroughIap: true }))).toBe(true);
    expect(isSameMachine(machine({}), machine({ project: 'p' }))).toBe(false);
    expect(isSameMachine(machine({}), machine({}, 'gcloud:us-east5-b/my-tpu'))).toBe(false);
    expect(isSameMachine(machine({}), machine({}, 'gcloud:instance/us-east5-a/my-tpu'))).toBe(false);
    expect(isSameMachine(machine({}), sourceOf('my-tpu', {}))).toBe(false);
    expect(isSameMachine(sourceOf('vm', {}), sourceOf('vm', {}))).toBe(true);
  });

  it('is shown with the remote', () => {
    expect(sourceText(machine({}))).toBe('gcloud:instance/us-east5-b/my-tpu');
    expect(sourceText(machine({ tunnelThroughIap: true, project: 'p' }))).toBe(
      'gcloud:instance/us-east5-b/my-tpu (p) --tunnel-through-iap'
    );
  });
});

describe('a machine of Google Cloud that is named without its zone', () => {
  /** Resolves the zone with a stand-in for gcloud that answers commands with these words and refuses all others. */
  const zone = async (
    answers: Readonly<Record<string, string>>,
    target = 'gcloud:my-tpu',
    options: { zone?: string; project?: string } = {}
  ): Promise<string | undefined> => {
    const query: Gcloud['query'] = async (args, requested) => {
      const output = Object.entries(answers).find(([words]) => args.join(' ').includes(words))?.[1];
      if (output === undefined) throw explainGcloud('ERROR: (gcloud) no answer for that', requested);
      return output;
    };
    const gcloud: Gcloud = { query, change: async () => undefined };
    return (await withZone(target, options, gcloud, new AbortController().signal)).zone;
  };
  const unset = { 'config get-value compute/zone': '(unset)\n' };
  const tpus = (kind: string, ...paths: readonly (readonly [zone: string, name: string])[]): string =>
    JSON.stringify(paths.map(([where, name]) => ({ name: `projects/p/locations/${where}/${kind}/${name}` })));

  it('is in the zone that gcloud is configured with', async () => {
    expect(await zone({ 'config get-value compute/zone': 'us-east5-b\n' })).toBe('us-east5-b');
  });

  it('is in the zone of the only machine with its name and product', async () => {
    const nodes = tpus('nodes', ['us-east5-a', 'my-tpu-2'], ['us-east5-b', 'my-tpu'], ['eu', 'other']);
    expect(await zone({ ...unset, 'tpu-vm list --zone=- ': nodes })).toBe('us-east5-b');
    const queue = tpus('queuedResources', ['us-east5-c', 'q']);
    const queued = { ...unset, 'queued-resources list --zone=- ': queue };
    expect(await zone(queued, 'gcloud:queued-resource/q')).toBe('us-east5-c');
    const url = 'https://www.googleapis.com/compute/v1/projects/p/zones/us-east5-a';
    const instances = JSON.stringify([{ name: 'vm', zone: url }, { name: 'vm-2' }]);
    const project = { project: 'p' };
    expect(
      await zone(
        { ...unset, 'instances list --format=json(name,zone) --project=p': instances },
        'gcloud:instance/vm',
        project
      )
    ).toBe('us-east5-a');
  });

  it('is looked up only if no zone is given', async () => {
    expect(await zone({}, 'gcloud:us-east5-b/my-tpu')).toBeUndefined();
    expect(await zone({}, 'gcloud:my-tpu', { zone: 'z' })).toBe('z');
    expect(await zone({}, 'me@host')).toBeUndefined();
  });

  it.each([
    [
      'several zones have one',
      tpus('nodes', ['b', 'my-tpu'], ['a', 'my-tpu']),
      /in a, b\. Add the zone.*--zone/
    ],
    ['no zone has one', '[]', /^There is no tpu-vm named my-tpu in the project that gcloud is set to/],
    ['gcloud refuses', undefined, /^In which zone is my-tpu\? Add the zone.*gcloud says: .*no answer/]
  ])('is not guessed when %s', async (_case, nodes, message) => {
    const answers: Record<string, string> = {
      ...unset,
      ...(nodes === undefined ? {} : { 'tpu-vm list': nodes })
    };
    await expect(zone(answers)).rejects.toMatchObject({
      code: 'remote_target_invalid',
      message: expect.stringMatching(message) as string
    });
  });
});
