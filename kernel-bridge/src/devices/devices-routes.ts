/** The machine and its chips (`/bridge/v1/devices`): current state and history. The events socket sends live samples. */
import { DevicesHistory, DevicesPage, HistoryQuery, HostOnly } from '@tpulab/protocol';
import type { App } from '../http/app.js';
import { route } from '../http/api-description.js';

/** The interface of the sampler for the routes. */
export interface Machine {
  page(): Promise<DevicesPage>;
  history(tierS: number, fromMs: number): Promise<DevicesHistory>;
}

/** A wish that kernels use only the chips of their own host. */
interface HostOnlyRequest {
  set(isOn: boolean): Promise<void>;
}

export function addDevicesRoutes(app: App, machine: Machine, hostOnly: HostOnlyRequest): void {
  app.put(
    '/bridge/v1/devices/host-only',
    route(
      'For a slice: whether new kernels use only the chips of this host',
      { 200: HostOnly },
      { body: HostOnly }
    ),
    async ({ body }) => {
      await hostOnly.set(body.hostOnly);
      return body;
    }
  );

  app.get(
    '/bridge/v1/devices',
    route(
      'The chips of this machine, their holders and their activity',
      { 200: DevicesPage },
      {
        description:
          'On a machine without chips, the lists are empty, and `sample.metrics.state` says `no-chips`.'
      }
    ),
    async () => machine.page()
  );

  app.get(
    '/bridge/v1/devices/history',
    route(
      'History of the machine and its chips: minimum, mean and maximum by time',
      { 200: DevicesHistory },
      {
        description:
          'Points of 1 s (ten minutes), 10 s (two hours) or 60 s (two days). They outlive pages and gateways.',
        querystring: HistoryQuery
      }
    ),
    async request => machine.history(Number(request.query.tier ?? '1'), request.query.from ?? 0)
  );
}
