/** Answers the page's requests about remotes in place of its gateway; all others go to the real gateway. */
import type { Page, Route, WebSocketRoute } from '@playwright/test';
import type {
  DevicesPage,
  EnvironmentCreation,
  EnvironmentInfo,
  HoldersPage,
  Remote,
  RemoteCandidates,
  RemoteEvent
} from '@tpulab/protocol';
import { CANDIDATES, NOBODY, PLAN, RECENT } from './dialog-states.js';

const DEVICES: DevicesPage = {
  accelerator: { type: 'v6e-4', workerId: '0', processBounds: null, chipsPerProcessBounds: null },
  chips: [0, 1, 2, 3].map(index => ({
    index,
    pciAddress: `0000:00:0${index + 4}.0`,
    pciDevice: '0x006f',
    name: 'v6e',
    node: `/dev/vfio/${index}`,
    owners: []
  })),
  specs: [
    {
      name: 'v6e',
      deviceKinds: ['TPU v6 lite'],
      pci: [],
      tensorCores: 1,
      devices: 1,
      hbmGiB: 32,
      usableGiBPerDevice: 31.25,
      hbmGBPerS: null,
      iciGBPerS: null,
      topology: null,
      tflops: {},
      chipsPerHost: [4],
      source: 'docs/chips.md',
      notes: null
    }
  ],
  sample: {
    time: 0,
    host: {
      cpuPercent: null,
      cores: 1,
      load1: null,
      memoryUsedBytes: null,
      memoryTotalBytes: null,
      diskReadBytesPerS: null,
      diskWrittenBytesPerS: null,
      networkReceivedBytesPerS: null,
      networkSentBytesPerS: null
    },
    devices: [],
    metrics: { state: 'idle', detail: null }
  },
  runtime: { uptimeS: null, errors: null, distributions: [] },
  sampleHz: 1
};

export class StandInAnswers {
  candidates: RemoteCandidates = CANDIDATES;
  remotes: readonly Remote[] = RECENT;
  holders: HoldersPage = NOBODY;
  /** Null: the real environments of this machine. */
  environments: readonly EnvironmentInfo[] | null = null;
  creation: EnvironmentCreation | null = null;

  /** Called before the page is loaded. */
  static async give(page: Page): Promise<StandInAnswers> {
    const answers = new StandInAnswers();
    await page.route(/\/(bridge\/v1\/)?(machines|environments)\b/, route => answers.answer(route));
    // A connected remote has its own events, which are not the gateway's.
    const isGateways = ({ pathname }: URL): boolean =>
      /^(?!.*\/machines\/).*\/bridge\/v1\/events$/.test(pathname);
    await page.routeWebSocket(isGateways, socket => {
      socket.connectToServer();
      // The page may connect again; messages go to its present connection.
      answers.#events = socket;
    });
    return answers;
  }

  /** Reports a change as the gateway does. A page that reconnects and requests the list gets it too. */
  report(remote: Remote, removed = false): void {
    const others = this.remotes.filter(({ name }) => name !== remote.name);
    this.remotes = removed ? others : [...others, remote];
    const event: RemoteEvent = { topic: 'remotes', remote, removed };
    this.#events?.send(JSON.stringify({ op: 'events', events: [event] }));
  }

  async answer(route: Route): Promise<void> {
    const request = route.request();
    const { pathname } = new URL(request.url());
    const found = request.method() === 'OPTIONS' ? null : this.#of(request.method(), pathname);
    if (found === null) {
      await route.fallback();
      return;
    }
    await route.fulfill({
      status: found === undefined ? 503 : 200,
      headers: { 'access-control-allow-origin': '*' },
      json: found ?? { message: 'not connected', reason: null, code: 'remote_unavailable' }
    });
  }

  /** Null: the real gateway answers; undefined: the remote does not. */
  #of(method: string, path: string): unknown {
    if (path.endsWith('/bridge/v1/environments')) return this.environments;
    if (path.endsWith('/creation')) return this.creation;
    if (path.endsWith('/bridge/v1/machines/candidates')) return this.candidates;
    if (path.endsWith('/bridge/v1/machines')) return method === 'POST' ? null : { remotes: this.remotes };
    if (path.endsWith('/sync')) return PLAN;
    if (path.endsWith('/log'))
      return { lines: [{ at: 0, text: 'debug1: Offering public key: google_compute_engine' }] };
    if (path.endsWith('/devices/holders')) return this.holders;
    if (path.endsWith('/bridge/v1/devices')) return DEVICES;
    return path.includes('/machines/') ? undefined : null;
  }

  #events: WebSocketRoute | null = null;
}
