/** `GET /metrics`: kernels, runs, chips, host and journals in the text format of Prometheus. */
import type { StoredRunSummary, MachineSample } from '@tpulab/protocol';
import { notJson, route } from '../http/api-description.js';
import type { App } from '../http/app.js';

/** Limit of running runs with metrics: each metric is one line, and a time-series database should not have to store more. */
const RUNS_SHOWN = 64;
const METRICS_SHOWN = 16;

interface MetricsSources {
  /** Execution states. */
  readonly kernels: () => readonly string[];
  readonly runs: () => Promise<readonly StoredRunSummary[]>;
  readonly machine: () => Promise<MachineSample>;
  readonly journalBytes: () => Promise<number>;
}

type Labels = Readonly<Record<string, string>>;
type Sample = readonly [labels: Labels, value: number | null];

export function addMetricsRoute(app: App, sources: MetricsSources): void {
  app.get(
    '/metrics',
    route('Kernels, runs, chips and journals, for Prometheus', { 200: notJson('the metrics', 'text/plain') }),
    async (_request, reply) =>
      reply.type('text/plain; version=0.0.4; charset=utf-8').send(await metricsText(sources))
  );
}

export async function metricsText({ kernels, runs, machine, journalBytes }: MetricsSources): Promise<string> {
  const [all, { host, devices }, bytes] = await Promise.all([runs(), machine(), journalBytes()]);
  const running = all.filter(({ state }) => state === 'running').slice(0, RUNS_SHOWN);
  const of = ({ kernelId, run, name }: StoredRunSummary): Labels => ({ kernel: kernelId, run, name });
  const states = kernels();
  const device = (figure: (one: MachineSample['devices'][number]) => number | null): Sample[] =>
    devices.map(one => [{ device: String(one.ordinal) }, figure(one)]);
  const share = (percent: number | null): number | null => (percent === null ? null : percent / 100);
  return [
    gauge(
      'tpulab_kernels',
      'Kernels by execution state',
      [...new Set(states)].sort().map(state => [{ state }, states.filter(one => one === state).length])
    ),
    family(
      'tpulab_run_steps_total',
      'counter',
      'Steps done of each running run',
      running.map(run => [of(run), run.steps])
    ),
    gauge(
      'tpulab_run_step_seconds',
      'Mean time of a step without compilations and evaluations',
      running.map(run => [of(run), run.stepMs === undefined ? null : run.stepMs / 1_000])
    ),
    gauge(
      'tpulab_run_metric',
      'Newest value of each metric of a running run',
      running.flatMap(run =>
        Object.entries(run.metrics)
          .slice(0, METRICS_SHOWN)
          .map(([metric, value]): Sample => [{ ...of(run), metric }, value])
      )
    ),
    gauge(
      'tpulab_device_duty_cycle_ratio',
      'Share of time in which a device computed',
      device(one => share(one.dutyCyclePercent))
    ),
    gauge(
      'tpulab_device_memory_used_bytes',
      'Device memory in use',
      device(one => one.hbmUsedBytes)
    ),
    gauge(
      'tpulab_device_memory_bytes',
      'Device memory',
      device(one => one.hbmTotalBytes)
    ),
    gauge('tpulab_host_cpu_ratio', 'Share of all cores of the host in use', [[{}, share(host.cpuPercent)]]),
    gauge('tpulab_host_memory_used_bytes', 'Host memory in use', [[{}, host.memoryUsedBytes]]),
    gauge('tpulab_host_memory_bytes', 'Host memory', [[{}, host.memoryTotalBytes]]),
    gauge('tpulab_journal_bytes', 'Stored outputs of all kernels', [[{}, bytes]])
  ].join('');
}

function gauge(name: string, help: string, samples: readonly Sample[]): string {
  return family(name, 'gauge', help, samples);
}

/** Unknown values are left out, and so is a name without any known value. */
function family(name: string, type: string, help: string, samples: readonly Sample[]): string {
  const measured = samples.filter(([, value]) => value !== null);
  if (measured.length === 0) return '';
  const lines = measured.map(([labels, value]) => `${name}${labelText(labels)} ${value}\n`);
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`;
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => {
    const escaped = value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
    return `${name}="${escaped}"`;
  });
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}
