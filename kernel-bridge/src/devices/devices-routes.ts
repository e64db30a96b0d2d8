/** The machine and its chips (`/bridge/v1/devices`), now and before. Live samples come over the events socket. */
import { DevicesHistory, DevicesPage, HistoryQuery, HostOnly } from '@tpulab/protocol';
import type { App } from '../http/app.js';

/** What the routes need of the sampler. */
export interface Machine {
  page(): Promise<DevicesPage>;
  history(tierS: number, fromMs: number): Promise<DevicesHistory>;
}

/** Whether kernels keep to the chips of their own host. */
export interface HostOnlyWish {
  set(isOn: boolean): Promise<void>;
}

export function addDevicesRoutes(app: App, machine: Machine, hostOnly: HostOnlyWish): void {
  app.put(
    '/bridge/v1/devices/host-only',
    {
      schema: {
        summary: 'For a slice: whether new kernels use only the chips of this host',
        body: HostOnly,
        response: { 200: HostOnly }
      }
    },
    async ({ body }) => {
      await hostOnly.set(body.hostOnly);
      return body;
    }
  );

  app.get(
    '/bridge/v1/devices',
    {
      schema: {
        summary: 'The chips of this machine, their holders and their activity',
        description:
          'On a machine without chips, the lists are empty, and `sample.metrics.state` says `no-chips`.',
        response: { 200: DevicesPage }
      }
    },
    async () => machine.page()
  );

  app.get(
    '/bridge/v1/devices/history',
    {
      schema: {
        summary: 'History of the machine and its chips: minimum, mean and maximum by time',
        description:
          'Points of 1 s (ten minutes), 10 s (two hours) or 60 s (two days). They outlive pages and gateways.',
        querystring: HistoryQuery,
        response: { 200: DevicesHistory }
      }
    },
    async request => machine.history(Number(request.query.tier ?? '1'), request.query.from ?? 0)
  );
}
