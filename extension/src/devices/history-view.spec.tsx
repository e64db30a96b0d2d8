// @vitest-environment jsdom
import type { MachineSample } from '@tpulab/protocol';
import { act } from 'react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { reactPlace } from '../testing/react-place.js';
import { deviceFigures, machineSample } from '../events/samples.spec-data.js';
import { MachineTelemetry } from './machine-telemetry.js';
import { DrawLoop } from '../ui/draw-loop.js';
import { HistoryView } from './history-view.js';
import { DevicesNow } from './now-view.js';
import { RANGES, windowOf } from './history-window.js';

class Observer {
  observe(): void {
    // jsdom has no layout, so there is nothing to observe; the charts stay out of view.
  }
  disconnect(): void {
    // As above.
  }
}

describe('the charts of a machine', () => {
  const place = reactPlace();
  let loop: DrawLoop;
  let machine: MachineTelemetry;

  /** Headings with the newest figure, in display order. */
  const headings = (): string[] =>
    [...place.host.querySelectorAll('figure figcaption')].map(({ textContent }) => textContent);
  const show = (fields: Partial<MachineSample>): void => {
    machine.applySample(machineSample(1, fields));
    place.show(<HistoryView machine={machine} source={null} first="minutes" loop={loop} paused={false} />);
  };
  const click = (name: string): void => {
    const button = [...place.host.querySelectorAll('button')].find(({ textContent }) => textContent === name);
    act(() => button?.click());
  };

  beforeEach(() => {
    vi.stubGlobal('ResizeObserver', Observer);
    vi.stubGlobal('IntersectionObserver', Observer);
    loop = new DrawLoop(window);
    machine = new MachineTelemetry('bridge');
  });

  afterEach(() => {
    loop.dispose();
    machine.dispose();
  });

  it('show TensorCore and bandwidth where the chips report both, and only reported figures', () => {
    const sdk = { time: 0, tensorCorePercent: [60, 70], throttlePercent: [], links: [] };
    show({ devices: [deviceFigures(0), deviceFigures(1)], sdk });
    expect(headings()).toEqual([
      'HBM per device11.0 GiB',
      'Duty cycle87%',
      'TensorCore and HBM bandwidth65% · 41%',
      'Host CPU22%'
    ]);
  });

  it('have a line for each device on request, from the history and from later samples', () => {
    show({ devices: [deviceFigures(0), deviceFigures(3, { hbmUsedBytes: 5 })] });
    const names = (): string[] =>
      [...place.host.querySelectorAll('.jp-TPULabLine-name')].map(({ textContent }) => textContent);
    expect(names().slice(0, 2)).toEqual(['maximum', 'mean']);
    click('per device');
    expect(names().slice(0, 4)).toEqual(['device 0', 'device 3', 'device 0', 'device 3']);
    const columns = { min: [1], mean: [2], max: [3] };
    const history = { tierS: 1, times: [0], series: { 'device.3.hbmUsedBytes': columns } };
    const data = windowOf(history, machine.ring, ['device.3.hbmUsedBytes'], RANGES.minutes, 60_000);
    expect(data[1]?.[0]).toBe(2);
    expect(data[1]?.at(-1)).toBe(5);
    click('per device');
    expect(names().slice(0, 2)).toEqual(['maximum', 'mean']);
  });

  it('show neither of the two where no chip reports it', () => {
    show({ devices: [deviceFigures(0, { hbmBandwidthPercent: null })] });
    expect(headings().join()).not.toMatch(/TensorCore|bandwidth/);
  });

  it('show memory, network and disk of the host on request, as far as the system reports them', () => {
    const rates = { diskReadBytesPerS: null, diskWrittenBytesPerS: null };
    show({
      host: {
        ...machineSample(1).machine.host,
        ...rates,
        networkReceivedBytesPerS: 2_048,
        networkSentBytesPerS: 512
      }
    });
    expect(headings()).toEqual(['Host CPU22%']);
    click('Host memory, network and disk');
    expect(headings()).toEqual(['Host CPU22%', 'Host memory4.0 GiB', 'Host network2.0 KiB/s · 512 B/s']);
    click('Show fewer');
    expect(headings()).toHaveLength(1);
  });
});

describe('the present devices', () => {
  const place = reactPlace();

  it('are a row each up to 16, and cells of a grid beyond', () => {
    vi.stubGlobal('ResizeObserver', Observer);
    vi.stubGlobal('IntersectionObserver', Observer);
    const loop = new DrawLoop(window);
    const machine = new MachineTelemetry('bridge');
    const shown = (count: number): (string | null)[] => {
      const devices = Array.from({ length: count }, (_, ordinal) => deviceFigures(ordinal));
      machine.applySample(machineSample(count, { devices }));
      place.show(<DevicesNow devices={null} machine={machine} loop={loop} />);
      return [...place.host.querySelectorAll('ul, [role="slider"]')].map(node => node.ariaLabel);
    };
    expect(shown(16)).toEqual(['Devices by number']);
    expect(place.host.querySelectorAll('li')).toHaveLength(16);
    expect(shown(17)).toEqual(['Devices, one cell each']);
    loop.dispose();
    machine.dispose();
  });
});
