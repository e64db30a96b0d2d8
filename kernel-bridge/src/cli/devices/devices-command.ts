/** `tpulab devices`: the chips of the running gateway's machine, their holders, and their load. */
import {
  type Chip,
  type DeviceFigures,
  type DevicesPage,
  type HostFigures,
  type MetricsState,
  percentText,
  sizeText
} from '@tpulab/protocol';
import { Command } from 'commander';
import { pause } from '@tpulab/platform/waiting.js';
import { chosenGateway, type StateOptions } from '../running-gateway.js';
import { interruptible, print, type Streams } from '../output.js';

interface DevicesOptions extends StateOptions {
  readonly watch?: true;
}

const WATCH_MS = 1_000;

/** @param end ends `--watch`; if omitted, Ctrl+C ends it */
export function devicesCommand(streams: Streams, end?: AbortSignal): Command {
  return new Command('devices')
    .description("show this machine's chips, their utilisation and who holds them")
    .option('--watch', 'repeat every second until Ctrl+C')
    .option('--state-dir <folder>', "the server's state folder (default: the running server's)")
    .option('--json', 'print one line of JSON each time')
    .action(async (options: DevicesOptions) => {
      const gateway = await chosenGateway(options);
      const show = async (): Promise<void> => {
        const page = await gateway.devices();
        print(streams, options, page, devicesText(page));
      };
      if (options.watch !== true) return show();
      await interruptible(
        async interrupted => {
          const signal = end ?? interrupted;
          while (!signal.aborted) {
            await show();
            await pause(WATCH_MS, signal);
          }
        },
        ['SIGINT']
      );
    });
}

const STATES: Readonly<Record<MetricsState['state'], string>> = {
  serving: 'in use',
  idle: 'no process uses the chips, or it serves no metrics',
  failing: 'the process that uses the chips does not answer',
  'no-chips': 'no TPU chips on this machine'
};

export function devicesText({ accelerator, chips, specs, sample }: DevicesPage): string {
  const { state, detail } = sample.metrics;
  const reason = state === 'idle' || detail === null ? '' : ` (${detail})`;
  const lines = [hostLine(sample.host), `${accelerator.type ?? 'chips'}: ${STATES[state]}${reason}`];
  for (const chip of chips) {
    const spec = specs.find(({ name }) => name === chip.name);
    const peak = spec?.tflops['bf16'];
    const peakText = peak === undefined ? '' : `, ${peak} bf16 TFLOP/s`;
    lines.push(
      `  chip ${chip.index}  ${chip.name ?? `unknown (PCI ${chip.pciDevice})`}${peakText}  ${ownersText(chip)}`
    );
  }
  return [...lines, ...sample.devices.map(deviceLine)].join('\n');
}

function ownersText({ node, owners }: Chip): string {
  if (owners.length === 0) return `${node ?? 'no device file'}, no holder visible to you`;
  const names = owners.map(
    ({ pid, command, kernelId }) =>
      `${command ?? 'process'} ${pid}${kernelId === null ? '' : ` (kernel ${kernelId})`}`
  );
  return `${node ?? ''} held by ${names.join(', ')}`;
}

function deviceLine(device: DeviceFigures): string {
  const { ordinal, hbmUsedBytes, hbmTotalBytes, dutyCyclePercent, hbmBandwidthPercent } = device;
  return [
    `  device ${ordinal}`,
    `HBM ${size(hbmUsedBytes)} of ${size(hbmTotalBytes)}`,
    `duty ${percent(dutyCyclePercent)}`,
    `bandwidth ${percent(hbmBandwidthPercent)}`
  ].join('  ');
}

function hostLine(host: HostFigures): string {
  return [
    `host: CPU ${percent(host.cpuPercent)} of ${host.cores} cores`,
    `memory ${size(host.memoryUsedBytes)} of ${size(host.memoryTotalBytes)}`,
    `disk ${rate(host.diskReadBytesPerS)} read, ${rate(host.diskWrittenBytesPerS)} written`,
    `network ${rate(host.networkReceivedBytesPerS)} in, ${rate(host.networkSentBytesPerS)} out`
  ].join('; ');
}

function size(bytes: number | null): string {
  return bytes === null ? '?' : sizeText(bytes);
}

function percent(value: number | null): string {
  return value === null ? '?' : percentText(value);
}

function rate(bytes: number | null): string {
  return bytes === null ? '?' : `${sizeText(bytes)}/s`;
}
