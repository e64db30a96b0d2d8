import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { StandInVm, whyNoStandIn } from '../../../tests/stand-in-vm/index.js';
import { Hub } from './testing/hub.js';

const why = whyNoStandIn();

describe.skipIf(why !== null)(`a remote over ssh${why === null ? '' : ` (skipped: ${why})`}`, () => {
  let vm: StandInVm;
  let hub: Hub;

  beforeAll(async () => {
    vm = await StandInVm.start();
    hub = await Hub.start(vm.laptop);
  });
  afterAll(async () => {
    await hub?.[Symbol.asyncDispose]();
    await vm?.[Symbol.asyncDispose]();
  });

  it('is connected, and its gateway is served under its name', async () => {
    await hub.add(vm);
    const remote = await hub.until('connected');
    expect(remote).toMatchObject({ hosts: ['vm'], error: null });
    const health = await hub.rest('GET', '/remotes/vm/bridge/v1/health');
    expect(health).toMatchObject({ status: 200, body: { gatewayId: remote.gatewayId } });
  });
});
