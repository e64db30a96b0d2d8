// @ts-check
/**
 * The training steps of notebooks 01, 03 and 04 in PyTorch: XLA:CPU against plain PyTorch, and with and without the agent.
 *
 * Groups of steps in turn in one process for each notebook (`measure.py`); a figure is the lower quartile of its groups,
 * because other work on the machine only adds time. "noise" compares two plain kinds with each other. Needs the environment
 * `torch-xla`. Options: `--rounds N` (default 8), `--steps N` in a group (default 8), `--no-save`. Exit code 1: the agent
 * costs more than 1 % plus the noise.
 */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { machineFacts, versionsOf } from '../measure/machine.mjs';
import { printTable, saveResults } from '../measure/results.mjs';

/** What the agent may cost, in percent of a step. */
const LIMIT_PERCENT = 1;
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PYTHON = join(
  process.env['TPULAB_ENV_DIR'] ?? join(ROOT, '.tpulab', 'envs'),
  'torch-xla',
  'bin',
  'python'
);
const RECIPES = ['01-single-core', '03-profiling', '04-bert-fine-tune'];

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '8' },
    steps: { type: 'string', default: '8' },
    'no-save': { type: 'boolean', default: false }
  }
});
if (!existsSync(PYTHON)) {
  console.error('The environment "torch-xla" is missing; `npx tpulab env create torch-xla` makes it.');
  process.exit(2);
}
const machine = {
  ...machineFacts(),
  packages: versionsOf(PYTHON, ['torch', 'torch_xla', 'transformers', 'tpulab'])
};

const results = RECIPES.map(recipe => {
  console.error(`measuring ${recipe} …`);
  const output = execFileSync(
    PYTHON,
    [
      join(ROOT, 'bench', 'recipes-torch', 'measure.py'),
      recipe,
      '--rounds',
      values.rounds,
      '--steps',
      values.steps
    ],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], timeout: 1_200_000 }
  );
  /** @type {{ step_ms: { xla: number, xla_agent: number, xla_again: number, eager: number } }} */
  const { step_ms: ms } = JSON.parse(output.trim().split('\n').at(-1) ?? '');
  const plain = (ms.xla + ms.xla_again) / 2;
  console.error(
    `  XLA ${plain.toFixed(1)} ms, with the agent ${ms.xla_agent.toFixed(1)}, eager ${ms.eager.toFixed(1)}`
  );
  return {
    recipe,
    xlaMs: plain,
    withAgentMs: ms.xla_agent,
    eagerMs: ms.eager,
    xlaOverEager: plain / ms.eager,
    agentPercent: (ms.xla_agent / plain - 1) * 100,
    noisePercent: Math.abs(ms.xla_again / ms.xla - 1) * 100
  };
});

printTable(
  'a step, ms',
  ['XLA:CPU', 'with the agent', 'plain PyTorch', 'XLA / plain', 'agent %', 'noise %'],
  results.map(each => [
    each.recipe,
    each.xlaMs,
    each.withAgentMs,
    each.eagerMs,
    each.xlaOverEager,
    each.agentPercent,
    each.noisePercent
  ])
);
if (!values['no-save']) {
  await saveResults('recipes-torch', machine, results, { rounds: values.rounds, steps: values.steps });
}
if (results.some(each => each.agentPercent > LIMIT_PERCENT + each.noisePercent)) process.exitCode = 1;
