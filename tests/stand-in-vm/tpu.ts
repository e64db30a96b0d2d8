/** TPU chips of a stand-in VM: their files in Linux, and the metric server of the runtime that uses them. */
import { chmod, writeFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { ModuleKind, ScriptTarget, transpileModule } from 'typescript';
import { FakeMachine } from '../../kernel-bridge/src/devices/testing/fake-machine.js';
import type { WireMetric } from '../../kernel-bridge/src/devices/metric-service.js';
import { type Generation, serve } from '../../kernel-bridge/src/devices/testing/traces.js';
import { bridgeBuild } from '../../kernel-bridge/src/faults/testing/bridge-build.js';

const SERVER = new URL('../../kernel-bridge/src/devices/testing/metric-server.ts', import.meta.url);
/** The port of libtpu's own server. */
const METRIC_PORT = 8431;

export interface StandInTpu extends AsyncDisposable {
  /** For `StandInVmOptions`. */
  readonly mounts: Readonly<Record<string, string>>;
  readonly services: readonly string[];
  /** The runtime uses the chips and reports them; each step has other figures. */
  serve(step: number): Promise<void>;
}

export async function standInTpu(generation: Generation): Promise<StandInTpu> {
  const machine = await FakeMachine.make();
  await machine.addChips(generation);
  const metrics = path.join(machine.root, 'metrics');
  await machine.write('metrics/metrics.json', '{}');
  await chmod(machine.root, 0o755);
  return {
    mounts: {
      '/sys/bus/pci/devices': path.join(machine.root, 'sys/bus/pci/devices'),
      '/opt/metrics': metrics,
      ...(generation.node === 'vfio' ? { '/dev/vfio': path.join(machine.root, 'dev/vfio') } : {})
    },
    services: [`/opt/node '${await metricProgram()}' /opt/metrics/metrics.json`],
    serve: async step => {
      const reported = { metrics: new Map<string, readonly WireMetric[]>() };
      serve(reported, generation, { step });
      const text = JSON.stringify(Object.fromEntries(reported.metrics));
      await writeFile(path.join(metrics, 'metrics.json'), text);
    },
    [Symbol.asyncDispose]: () => machine[Symbol.asyncDispose]()
  };
}

/** The metric server of the specs, beside its build, with a program that reads a file repeatedly. */
async function metricProgram(): Promise<string> {
  const folder = path.join(path.dirname(await bridgeBuild()), '..', 'lib', 'devices');
  const compilerOptions = { module: ModuleKind.ESNext, target: ScriptTarget.ES2022 };
  const server = transpileModule(readFileSync(SERVER, 'utf8'), { compilerOptions }).outputText;
  await writeFile(
    path.join(folder, 'stand-in-metrics.js'),
    server.replaceAll("'../metric-service.js'", "'./metric-service.js'")
  );
  const program = path.join(folder, 'stand-in-metrics-main.js');
  await writeFile(
    program,
    `import { readFileSync } from 'node:fs';
import { MetricServer } from './stand-in-metrics.js';
const server = await MetricServer.start(${METRIC_PORT});
const read = () => {
  try {
    const metrics = Object.entries(JSON.parse(readFileSync(process.argv[2], 'utf8')));
    server.metrics.clear();
    for (const [name, values] of metrics) server.metrics.set(name, values);
  } catch {}
};
read();
setInterval(read, 200);
`
  );
  return program;
}
