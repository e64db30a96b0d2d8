/** What a new notebook begins with. */
import { trans } from '../text.js';
export interface Template {
  readonly id: string;
  readonly label: string;
  readonly about: string;
  /** Name of its file. */
  readonly file: string;
  readonly cells: readonly (readonly ['markdown' | 'code', string])[];
}

export const EMPTY: Template = {
  id: 'empty',
  label: trans.__('Empty notebook'),
  about: trans.__('One empty cell.'),
  file: 'Untitled.ipynb',
  cells: [['code', '']]
};

export const TEMPLATES: readonly Template[] = [
  EMPTY,
  {
    id: 'training',
    label: trans.__('Training loop'),
    about: trans.__('A small model in JAX with a run that the page can steer.'),
    file: 'training.ipynb',
    cells: [
      [
        'markdown',
        '# Training loop\n\nA linear model in JAX. The step bar below shows where the time of each step goes.'
      ],
      ['code', 'import jax, jax.numpy as jnp\nimport tpulab\n\njax.devices()'],
      ['markdown', '## Data and step\n\nShapes are static, so the step compiles once.'],
      [
        'code',
        [
          'key = jax.random.key(0)',
          'true_weights = jax.random.normal(key, (64,))',
          '',
          'def batches(count, size=256):',
          '    for index in range(count):',
          '        inputs = jax.random.normal(jax.random.fold_in(key, index), (size, 64))',
          '        yield inputs, inputs @ true_weights',
          '',
          '@jax.jit',
          'def train_step(weights, batch, learning_rate):',
          '    inputs, targets = batch',
          '    def loss_of(weights):',
          '        return jnp.mean((inputs @ weights - targets) ** 2)',
          '    loss, gradient = jax.value_and_grad(loss_of)(weights)',
          '    return weights - learning_rate * gradient, loss'
        ].join('\n')
      ],
      ['markdown', '## Train\n\nPause it, or change the learning rate in the panel while it runs.'],
      [
        'code',
        [
          "run = tpulab.run('linear', hyperparameters={",
          "    'learning_rate': tpulab.hyper(0.05, min=1e-4, max=0.3, scale='log'),",
          '})',
          'weights = jnp.zeros(64)',
          'for batch in run.steps(batches(2000), total=2000):',
          '    weights, loss = train_step(weights, batch, run.hyper.learning_rate)',
          '    run.log(loss=loss)'
        ].join('\n')
      ]
    ]
  }
];

/** As a file of nbformat 4.5. */
export function notebookOf({ cells }: Template): string {
  const made = {
    cells: cells.map(([type, source], at) => ({
      cell_type: type,
      id: `cell-${at + 1}`,
      metadata: {},
      source: source.split(/(?<=\n)/),
      ...(type === 'code' ? { execution_count: null, outputs: [] } : {})
    })),
    metadata: {},
    nbformat: 4,
    nbformat_minor: 5
  };
  return `${JSON.stringify(made, null, 1)}\n`;
}
