/** The page that the benchmark loads: eight panels, each fed by a separate stream, as frames of text. */
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import type { StepSample } from '@tpulab/protocol';
import { createRoot, type Root } from 'react-dom/client';
import type { CurrentKernel } from '../../extension/src/tokens.js';
import type { StreamState } from '../../extension/src/events/event-stream.js';
import { KernelTelemetry } from '../../extension/src/events/kernel-telemetry.js';
import { parseFrame } from '../../extension/src/events/parse-frame.js';
import type { PanelActions } from '../../extension/src/panel/actions.js';
import { HeatView } from '../../extension/src/devices/heat-view.js';
import { OurLines, PeerLines, prepare, tilesAt, TURNS } from './loads.js';
import { showHostTabs } from '../../extension/src/slices/host-tabs.js';
import { PanelState } from '../../extension/src/panel/state.js';
import { PanelView } from '../../extension/src/panel/view.js';
import { DrawLoop } from '../../extension/src/ui/draw-loop.js';
import type { IBridgeEvents, ICurrentKernel } from '../../extension/src/tokens.js';
import '../../style/index.js';

const PANELS = 8;
const CHIPS_PER_HOST = 4;
const FRAMES_PER_SECOND = 10;
/** Steps of 10 ms: a hundred a second and panel. */
const STEPS_PER_FRAME = 10;

const actions: PanelActions = {
  controlOf: () => null,
  storedRuns: () => null,
  documentOf: () => null,
  showDocument: () => undefined,
  release: () => undefined,
  exportSteps: () => undefined,
  canInsert: () => false
};

const trans = nullTranslator.load('jupyterlab_tpulab');
const loop = new DrawLoop(window);
const kernels = Array.from({ length: PANELS }, (_, at) => new KernelTelemetry(`k${at}`));
const states = kernels.map(stateOf);
const seqs = kernels.map(() => 0);
let steps = 0;
let made = 0;
let prepared: string[][] = [];
let isEndless = false;
let timer: ReturnType<typeof setInterval> | undefined;

function stateOf(kernel: KernelTelemetry): PanelState {
  const backend = { id: 'bridge', state: 'ok', lastError: null };
  const current = {
    kind: 'bridge',
    document: `${kernel.kernelId}.ipynb`,
    kernelName: 'JAX',
    kernelId: kernel.kernelId,
    clientId: 'c',
    connection: 'connected',
    status: 'busy',
    backend
  };
  const followed = { current: current as unknown as CurrentKernel, kernel: null, changed: new Signal({}) };
  const live: StreamState = { kind: 'live', gatewayId: 'g' };
  const events = {
    streamOf: () => live,
    streamChanged: new Signal({}),
    telemetryOf: () => kernel,
    machineOf: () => null,
    machineSourceOf: () => null
  };
  return new PanelState(followed as unknown as ICurrentKernel, events as unknown as IBridgeEvents);
}

/** A frame as the gateway sends it: text, so that parsing it counts too. */
function frameOf(panel: number, data: object, topic: string): string {
  seqs[panel] = (seqs[panel] ?? 0) + 1;
  return JSON.stringify({ op: 'events', events: [{ topic, kernelId: `k${panel}`, seq: seqs[panel], data }] });
}

function receive(panel: number, text: string): void {
  const frame = parseFrame(text);
  if (frame.op !== 'events' || frame.skipped > 0) {
    throw new Error('The page does not understand what the benchmark sends.');
  }
  for (const event of frame.events) {
    if (event.topic !== 'kernels' && event.topic !== 'clients') {
      kernels[panel]?.applyTelemetry(event, Date.now());
    }
  }
}

function stepOf(index: number): StepSample {
  const inputMs = 0.4 + 0.3 * Math.abs(Math.sin(index));
  const compileMs = index % 97 === 0 ? 1_500 : 0;
  const deviceMs = 8 + Math.cos(index * 1.7);
  const spans = { inputMs, hostMs: 0.7, compileMs, deviceMs, gapMs: 0.3 };
  const wallMs = inputMs + 0.7 + compileMs + deviceMs + 0.3;
  return {
    index,
    startTime: 1.79e12 + index * 10,
    wallMs,
    deviceKnown: true,
    metrics: { loss: 1 / (index + 1) },
    ...spans
  };
}

/** Prepares all frames, because making them is the gateway's work and not the page's. */
function prepareFrames(count: number): string[][] {
  return Array.from({ length: count }, () => {
    const samples = Array.from({ length: STEPS_PER_FRAME }, (_, at) => stepOf(made + at));
    made += STEPS_PER_FRAME;
    const data = { type: 'steps', time: 1.79e12, run: 'r', steps: samples, dropped: 0 };
    return kernels.map((_, panel) => frameOf(panel, data, 'steps'));
  });
}

function tick(): void {
  const frames = isEndless ? prepareFrames(1)[0] : prepared.shift();
  if (!frames) {
    throw new Error('The benchmark has run out of frames.');
  }
  frames.forEach((text, panel) => receive(panel, text));
  steps += STEPS_PER_FRAME;
}

kernels.forEach((_, panel) => {
  const run = { run: 'r', name: `run ${panel}`, state: 'running', totalSteps: 1e6, location: null };
  receive(panel, frameOf(panel, { type: 'run', time: 1.79e12, ...run }, 'runs'));
});

declare global {
  interface Window {
    bench: {
      /** Mounts the panels; without it only the reading of frames is measured. */
      mount(): void;
      /** Eight line charts of four series and 600 points, redrawn ten times a second: ours, or the peer's. */
      mountLines(kind: 'ours' | 'recharts'): void;
      /** Devices of a slice in the grid, with new values twice a second. */
      mountDevices(count: number): void;
      /** The panel of a slice with a run on `count` hosts, and the grid of its chips, four per host; new values twice a second. */
      mountHosts(count: number): void;
      /** Creates tabs with the output of `count` hosts, `lines` lines each; returns ms until they are laid out. */
      openTabs(count: number, lines: number): number;
      /** Removes the mounted parts and stops their updates. */
      unmount(): void;
      /** Feeds prepared frames; 0 stops. */
      feed(frames: number): void;
      /** Feeds frames that are made on demand, for as long as the page is open. */
      feedEndlessly(): void;
      hide(hidden: boolean): void;
      counts(): { frames: number; steps: number; charts: number };
    };
  }
}

/** The lead's report of a slice's steps: host 7 is late. */
function hostsAt(count: number, turn: number): object {
  const hosts = Array.from({ length: count }, (_, host) => {
    const inputMs = host === 7 ? 20 : 2 + Math.sin(turn + host);
    const spans = { inputMs, hostMs: 1, compileMs: 0, deviceMs: 30 - inputMs, gapMs: 0.5 };
    return {
      host,
      name: `host ${host} (me@10.0.0.${host})`,
      wallMs: 31.5,
      lateMs: host === 7 ? 17 : 0,
      ...spans
    };
  });
  const straggler = { host: 7, lateMs: 17, cause: 'input' };
  return { type: 'hosts', time: 1.79e12, run: 'r', step: turn, compared: 20, hosts, straggler };
}

const roots: Root[] = [];
let beat: ReturnType<typeof setInterval> | undefined;

function mountIn(className: string): Root {
  const host = document.body.appendChild(document.createElement('div'));
  host.className = className;
  const root = createRoot(host);
  roots.push(root);
  return root;
}

function mountPanel(state: PanelState): void {
  state.paused = false;
  mountIn('jp-TPULabPanel host').render(
    <PanelView
      state={state}
      loop={loop}
      onRemedy={() => undefined}
      onGoTo={() => null}
      actions={actions}
      trans={trans}
    />
  );
}

window.bench = {
  mountLines(kind) {
    const lines = Array.from({ length: PANELS }, () => mountIn('jp-TPULabPanel lines'));
    const Chart = kind === 'ours' ? OurLines : PeerLines;
    prepare();
    let turn = 0;
    const draw = (): void => {
      turn += 1;
      lines.forEach((root, at) => root.render(<Chart loop={loop} turn={turn % TURNS} chart={at} />));
    };
    draw();
    beat = setInterval(draw, 1_000 / FRAMES_PER_SECOND);
  },
  mountDevices(count) {
    const root = mountIn('jp-TPULabPanel devices');
    let turn = 0;
    const draw = (): void => {
      turn += 1;
      root.render(<HeatView tiles={tilesAt(count, turn)} loop={loop} trans={trans} />);
    };
    draw();
    beat = setInterval(draw, 500);
  },
  mountHosts(count) {
    const [state] = states;
    if (!state) {
      throw new Error('There is no panel.');
    }
    mountPanel(state);
    const chips = mountIn('jp-TPULabPanel devices');
    let turn = 0;
    const draw = (): void => {
      turn += 1;
      receive(0, frameOf(0, hostsAt(count, turn), 'steps'));
      chips.render(<HeatView tiles={tilesAt(count * CHIPS_PER_HOST, turn)} loop={loop} trans={trans} />);
    };
    receive(0, prepareFrames(1)[0]?.[0] ?? '');
    draw();
    beat = setInterval(draw, 500);
  },
  openTabs(count, lines) {
    const host = document.body.appendChild(document.createElement('div'));
    const text = Array.from({ length: lines }, (_, at) => `step ${at}: loss 0.1234`).join('\n');
    host.innerHTML = Array.from(
      { length: count - 1 },
      (_, at) =>
        `<details><summary>host ${at + 1}: different output (${lines} lines)</summary><pre>${text} on ${at + 1}</pre></details>`
    ).join('');
    const start = performance.now();
    showHostTabs(host, { host: null }, 'Output of other hosts');
    if (host.offsetHeight === 0 || host.querySelectorAll('[role=tab]').length !== count - 1) {
      throw new Error('The tabs are not there.');
    }
    return performance.now() - start;
  },
  unmount() {
    clearInterval(beat);
    for (const root of roots.splice(0)) {
      root.unmount();
    }
    document.querySelectorAll('body > div').forEach(host => host.remove());
  },
  mount() {
    kernels.forEach((kernel, panel) => {
      const state = states[panel];
      if (!state) {
        throw new Error(`No state for ${kernel.kernelId}`);
      }
      mountPanel(state);
    });
  },
  feed(frames) {
    clearInterval(timer);
    prepared = prepareFrames(frames);
    timer = frames > 0 ? setInterval(tick, 1_000 / FRAMES_PER_SECOND) : undefined;
  },
  feedEndlessly() {
    clearInterval(timer);
    isEndless = true;
    timer = setInterval(tick, 1_000 / FRAMES_PER_SECOND);
  },
  hide(hidden) {
    document.body.classList.toggle('hidden', hidden);
    states.forEach(state => {
      state.paused = hidden;
    });
  },
  counts: () => ({
    frames: loop.framesDrawn,
    steps,
    charts: document.querySelectorAll('.jp-TPULabChart-canvas').length
  })
};
