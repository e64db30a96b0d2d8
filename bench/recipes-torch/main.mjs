// @ts-check
/**
 * The training steps of notebooks 01, 03 and 04 in PyTorch: XLA:CPU against plain PyTorch, and with and without the agent.
 *
 * Groups of steps in turn in one process for each notebook (`measure.py`); a figure is the lower quartile of its groups,
 * because other work on the machine only adds time. "noise" compares two plain kinds with each other. Needs the environment
 * `torch-xla`. Options: `--rounds N` (default 8), `--steps N` in a group (default 8), `--no-save`. Exit code 1: the agent
 * costs more than 1 % plus the noise.
 */
import { parseArgs } from 'node:util';
import { printTable, saveResults } from '../measure/results.mjs';
import { torchXla } from '../measure/torch-xla.mjs';

/** What the agent may cost, in percent of a step. */
const LIMIT_PERCENT = 1;
const RECIPES = ['01-single-core', '03-profiling', '04-bert-fine-tune'];

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '8' },
    steps: { type: 'string', default: '8' },
    'no-save': { type: 'boolean', default: false }
  }
});
const { machine, measure } = torchXla('recipes-torch', ['transformers', 'tpulab']);

const results = RECIPES.map(recipe => {
  /** @type {{ step_ms: { xla: number, xla_agent: number, xla_again: number, eager: number } }} */
  const { step_ms: ms } = measure('measure', recipe, '--rounds', values.rounds, '--steps', values.steps);
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
