// @ts-check
/** The table of contents of the documentation: every page with its group. `notebook:` pages are rendered, `made:` pages are generated. */

/** @typedef {{ title: string, source: string }} Page */

/** @type {readonly { group: string, pages: readonly Page[] }[]} */
export const CONTENTS = [
  {
    group: 'Get started',
    pages: [
      { title: 'On your laptop, without a TPU', source: 'start-laptop.md' },
      { title: 'On a TPU VM', source: 'tpu-vm.md' },
      { title: 'On Colab', source: 'colab.md' },
      { title: 'From PyTorch/XLA', source: 'start-pytorch.md' },
      { title: 'From VS Code or your own Jupyter', source: 'local-runtime.md' }
    ]
  },
  {
    group: 'Tutorials',
    pages: [
      { title: 'Getting started with JAX', source: 'notebook:00-getting-started' },
      { title: 'Getting started with PyTorch', source: 'notebook:00-getting-started-pytorch' },
      { title: 'Train on one core', source: 'notebook:01-single-core' },
      { title: 'Train on several cores', source: 'notebook:02-multi-core' },
      { title: 'Three ways to divide, in JAX', source: 'notebook:02-multi-core-jax' },
      { title: 'Find a slow step', source: 'notebook:03-profiling' },
      { title: 'Find a slow step in JAX', source: 'notebook:03-profiling-jax' },
      { title: 'Fine-tune BERT', source: 'notebook:04-bert-fine-tune' },
      { title: 'Drawings: diffusion', source: 'notebook:05-ddpm' },
      { title: 'Dia: dialogue', source: 'notebook:06-dia' },
      { title: 'GPT-SoVITS: a voice', source: 'notebook:07-gpt-sovits' },
      { title: 'English speech', source: 'notebook:08-english-tts' }
    ]
  },
  {
    group: 'How-to guides',
    pages: [
      { title: 'Find out why a step is slow', source: 'how-slow-step.md' },
      { title: 'Stop recompilations', source: 'how-recompilations.md' },
      { title: 'Fix out of memory', source: 'how-out-of-memory.md' },
      { title: 'Check a notebook before you pay', source: 'check.md' },
      { title: 'Control a running training', source: 'control.md' },
      { title: 'Resume after a crash or preemption', source: 'how-resume.md' },
      { title: 'Connect a machine', source: 'connect.md' },
      { title: 'Use machines in JupyterLab', source: 'remotes-in-lab.md' },
      { title: 'Train on a slice', source: 'slices.md' },
      { title: 'Install packages', source: 'packages.md' },
      { title: 'Use the session page', source: 'session.md' },
      { title: 'Read saved output', source: 'outputs.md' },
      { title: 'Keep kernels running', source: 'keeping-kernels.md' }
    ]
  },
  {
    group: 'Reference',
    pages: [
      { title: 'Command line', source: 'made:command-line' },
      { title: 'Python API', source: 'made:python-api' },
      { title: 'Settings', source: 'configuration.md' },
      { title: 'Panel and status bar', source: 'panels.md' },
      { title: 'Errors', source: 'errors.md' },
      { title: 'Chips', source: 'devices.md' },
      { title: 'Glossary', source: 'glossary.md' }
    ]
  },
  {
    group: 'Concepts',
    pages: [
      { title: 'How step time is measured', source: 'steps.md' },
      { title: 'Security model', source: 'security.md' },
      { title: 'PyTorch and its memory on a TPU', source: 'runtime.md' },
      { title: 'The recipes', source: 'recipes.md' },
      { title: 'Diffusion', source: 'ddpm.md' },
      { title: 'Dia', source: 'dia.md' },
      { title: 'GPT-SoVITS', source: 'gpt-sovits.md' },
      { title: 'English TTS', source: 'english-tts.md' }
    ]
  },
  {
    group: 'Troubleshooting',
    pages: [
      { title: 'By symptom', source: 'troubleshooting.md' },
      { title: 'Questions and answers', source: 'faq.md' }
    ]
  },
  {
    group: 'Project',
    pages: [
      { title: 'Status: what was tested', source: 'status.md' },
      { title: 'What is shown where', source: 'outputs-shown.md' },
      { title: 'Changelog', source: '../CHANGELOG.md' },
      { title: 'Benchmarks', source: 'benchmarks.md' },
      { title: 'Contributing', source: '../CONTRIBUTING.md' },
      { title: 'Development', source: 'develop.md' },
      { title: 'Architecture', source: 'architecture.md' },
      { title: 'Journal format', source: 'journal.md' },
      { title: 'What survives a fault', source: 'faults.md' },
      { title: 'The step clock', source: 'step-clock.md' },
      { title: 'Inside a slice kernel', source: 'slices-inside.md' },
      { title: 'Reach another kind of machine', source: 'new-machine.md' },
      { title: 'The API', source: 'server-api.md' },
      { title: 'Error codes of the API', source: 'error-codes.md' },
      { title: 'Threats and their tests', source: 'threats.md' },
      { title: 'Jupyter conformance', source: 'conformance.md' },
      { title: 'Notes on the recipes', source: 'recipe-notes.md' },
      { title: 'Decisions', source: 'decisions/README.md' },
      { title: 'Report a security problem', source: '../SECURITY.md' }
    ]
  }
];

/** The page's address below the site, without `.html`. @param {string} source */
export function addressOf(source) {
  const [kind, name] = /** @type {[string, string]} */ (
    source.includes(':') ? source.split(':') : ['', source]
  );
  if (kind === 'notebook') return `tutorials/${name}`;
  if (kind === 'made') return `reference/${name}`;
  return name
    .replace(/^\.\.\//, '')
    .replace(/README\.md$/, 'index.md')
    .replace(/\.md$/, '')
    .replace(/^[A-Z]+$/, found => `${found.toLowerCase()}${found === 'SECURITY' ? '-policy' : ''}`);
}
