/** The initial content of a new notebook, in the session page and in JupyterLab. */
import { trans } from '../text/trans.js';

interface Template {
  readonly id: string;
  readonly label: string;
  readonly about: string;
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

/** One loop, one recompilation, one reload: the features of this program, in 90 seconds. */
export const TOUR: Template = {
  id: 'tour',
  label: trans.__('Tour'),
  about: trans.__('Three cells, 90 seconds: a loop, a recompilation, a reload.'),
  file: 'tour.ipynb',
  cells: [
    [
      'markdown',
      '# TPULab in 90 seconds\n\nRun each cell with Shift+Enter. To skip the tour, close this notebook; nothing depends on it.'
    ],
    ['markdown', '## 1. Where the time of a step goes'],
    [
      'code',
      [
        'import time',
        'import jax, jax.numpy as jnp, tpulab',
        '',
        'def loader(count, size=256):',
        '    for _ in range(count):',
        '        time.sleep(0.02)  # a slow disk',
        '        yield jnp.ones((size, 64))',
        '',
        '@jax.jit',
        'def train_step(weights, batch):',
        '    loss, gradient = jax.value_and_grad(lambda w: jnp.mean((batch @ w - 1) ** 2))(weights)',
        '    return weights - 0.001 * gradient, loss',
        '',
        'weights = jnp.zeros(64)',
        "run = tpulab.run('tour')",
        'for batch in run.steps(loader(300), total=300):',
        '    weights, loss = train_step(weights, batch)',
        '    run.log(loss=loss)'
      ].join('\n')
    ],
    [
      'markdown',
      '**Look at** the bar below the notebook (in JupyterLab: the TPULab panel at the right). Most of each step is *input*: the loop waits for its loader, not for the chip.\n\n## 2. Why a function compiles again'
    ],
    ['code', 'for size in (256, 256, 200):\n    weights, loss = train_step(weights, jnp.ones((size, 64)))'],
    [
      'markdown',
      '**Look at** Compilations in the panel. `train_step` was compiled once more, because the last batch has 200 rows; cell and line are named.\n\n## 3. Reload in the middle of a cell'
    ],
    ['code', 'for line in range(1, 31):\n    print(line, end=" ", flush=True)\n    time.sleep(0.5)'],
    [
      'markdown',
      '**Reload this page** (F5) while the cell prints. The kernel continues, and none of the 30 numbers is missing.\n\nNext: the lessons, beginning with `00-getting-started.ipynb`.'
    ]
  ]
};

export const TEMPLATES: readonly Template[] = [
  TOUR,
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

/** The text of a template's notebook file, in nbformat 4.5. */
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
