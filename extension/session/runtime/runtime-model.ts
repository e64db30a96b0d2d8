/** The data of the runtime chip: the place of the kernel, the load of the machine, the round trip. Unknown values are omitted. */
import { percentText, usageText } from '@tpulab/protocol';
import { summaryOf, tilesOf } from '../../src/devices/tiles.js';
import type { SessionPage } from '../page/session-page.js';
import { trans } from '../text.js';

export interface Gauge {
  readonly label: string;
  readonly percent: number;
  /** Full text, for the opened chip. */
  readonly text: string;
}

export interface Runtime {
  /** Null: no kernel. */
  readonly name: string | null;
  readonly kernelName: string;
  readonly tone: 'live' | 'busy' | 'waiting' | 'lost' | 'none';
  readonly detail: string;
  readonly gauges: readonly Gauge[];
}

export function runtimeOf(
  { current, status, events }: SessionPage,
  roundTripMs: number | null,
  isRunning: boolean
): Runtime {
  const { current: kernel } = current;
  if (kernel.kind !== 'bridge') return { name: null, kernelName: '', tone: 'none', detail: '', gauges: [] };
  const machine = events.machineOf(kernel.backend.id);
  const { connection } = status;
  // A page opened in mid-cell receives this from the gateway only.
  const isBusy =
    isRunning ||
    kernel.status === 'busy' ||
    events.telemetryOf(kernel.kernelId).state?.executionState === 'busy';
  const isLive = connection.kind === 'live' || connection.kind === 'at-risk';
  const kind = machine?.page?.chips[0]?.name ?? null;
  const about = isLive
    ? [
        kind,
        roundTripMs === null
          ? null
          : `${roundTripMs < 10 ? roundTripMs.toFixed(1) : Math.round(roundTripMs)} ms`
      ]
    : [
        { lost: trans.__('Lost'), replaying: trans.__('Catching up'), none: '', local: '' }[
          connection.kind as string
        ] ?? trans.__('Reconnecting…')
      ];
  return {
    name: kernel.backend.id === 'bridge' ? trans.__('This computer') : kernel.backend.label,
    kernelName: kernel.kernelName,
    tone: connection.kind === 'lost' ? 'lost' : !isLive ? 'waiting' : isBusy ? 'busy' : 'live',
    detail: about.filter(part => part !== null && part !== '').join(' · '),
    gauges: gaugesOf(machine)
  };
}

function gaugesOf(machine: ReturnType<SessionPage['events']['machineOf']>): Gauge[] {
  const sample = machine?.sample ?? null;
  if (sample === null) return [];
  const gauges: Gauge[] = [];
  if (sample.devices.length > 0) {
    const { dutyPercent } = summaryOf(tilesOf(sample, null, machine?.page ?? null));
    if (dutyPercent !== null) {
      gauges.push({
        label: 'TPU',
        percent: dutyPercent,
        text: trans.__('%1% busy', Math.round(dutyPercent))
      });
    }
    const [first] = sample.devices;
    if (first?.hbmUsedBytes != null && first.hbmTotalBytes != null && first.hbmTotalBytes > 0) {
      const used = Math.max(...sample.devices.map(({ hbmUsedBytes }) => hbmUsedBytes ?? 0));
      gauges.push({
        label: 'HBM',
        percent: (used / first.hbmTotalBytes) * 100,
        text: trans.__('%1 per chip', usageText(used, first.hbmTotalBytes))
      });
    }
  }
  const { cpuPercent, memoryUsedBytes, memoryTotalBytes } = sample.host;
  if (cpuPercent !== null) {
    gauges.push({ label: 'CPU', percent: cpuPercent, text: percentText(cpuPercent) });
  }
  if (memoryUsedBytes !== null && memoryTotalBytes !== null && memoryTotalBytes > 0) {
    gauges.push({
      label: 'RAM',
      percent: (memoryUsedBytes / memoryTotalBytes) * 100,
      text: usageText(memoryUsedBytes, memoryTotalBytes)
    });
  }
  return gauges;
}
