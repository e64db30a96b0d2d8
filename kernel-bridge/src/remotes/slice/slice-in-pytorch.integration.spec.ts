/**
 * A slice with the environment `torch-xla`: two stand-in machines, each with a separate network, sshd and disk. It takes a
 * minute, and the environment of 8 GB, so it runs on demand:
 * `TPULAB_SLICE_FAULTS=1 npx vitest run --project integration slice-in-pytorch`.
 */
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, vi } from 'vitest';
import { ENVIRONMENTS } from '../../../../tests/stand-in-vm/index.js';
import { runCommand as runNotebook } from '../../cli/run/run-command.js';
import { runCommand } from '../../cli/testing/command-line.js';
import { writeNotebook } from '../../cli/testing/notebook-file.js';
import { StandInSlice, sliceProblem } from './testing/stand-in-slice.js';

vi.setConfig({ testTimeout: 540_000 });

const NAME = 'torch-xla';
const hasEnvironment = existsSync(path.join(ENVIRONMENTS, NAME));
const why =
  process.env['TPULAB_SLICE_FAULTS'] !== '1'
    ? 'TPULAB_SLICE_FAULTS=1 runs it, for minutes'
    : (sliceProblem() ?? (hasEnvironment ? null : `there is no environment ${NAME}`));

/** The hosts learn one weight together, and host 1 gets the checkpoint of host 0, whose disk it does not see. */
const TRAINING = `import torch
from tpulab_recipes import runtime
from tpulab_recipes.torch_training import load_checkpoint, save_checkpoint
backend = runtime.use("cpu")
rank = backend.world().process_index
model = backend.prepare(torch.nn.Linear(1, 1, bias=False))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(50):
    x = backend.own_rows(torch.tensor([[1.0], [2.0]]))
    (model(x) - 3 * x).pow(2).mean().backward()
    backend.optimizer_step(optimizer)
    optimizer.zero_grad()
folder = backend.own_folder("run")
save_checkpoint(backend, folder, 50, {"weight": model.weight.detach()})
_, state = load_checkpoint(folder, backend)
print(backend.world().process_count, f"{state['weight'].item():.3f}", torch.equal(state["weight"], model.weight))`;

it.skipIf(why !== null)(
  `two hosts are set up with ${NAME}, and train together${why === null ? '' : ` (skipped: ${why})`}`,
  async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
    await using slice = await StandInSlice.start('tpu-vm', 2, NAME);
    const { hub } = slice;
    await hub.add({ source: slice.source, install: true, environment: NAME });
    await vi.waitFor(async () => expect((await slice.check())?.state, await hub.log()).toBe('ok'), {
      timeout: 240_000,
      interval: 50
    });
    expect((await slice.check())?.message).toContain('The kernel "PyTorch · my-tpu (2 hosts)"');
    const file = await writeNotebook(folder, 'training', [TRAINING], {
      kernelspec: { name: `tpulab-${NAME}` }
    });
    const { error } = await runCommand(
      streams => runNotebook(streams, () => undefined),
      ...[file, '--on', 'vm', '--state-dir', hub.bridge.folder]
    );
    expect(error, await hub.log()).toBeNull();
    const { cells } = JSON.parse(await readFile(file, 'utf8')) as {
      cells: [{ outputs: { text?: string | string[]; data?: Record<string, string | string[]> }[] }];
    };
    const [spoken, fold] = cells[0].outputs;
    expect([spoken?.text].flat().join('')).toBe('2 3.000 True\n');
    expect([fold?.data?.['text/plain']].flat().join('')).toBe('host 1: same as host 0');
    await rm(folder, { recursive: true });
  }
);
