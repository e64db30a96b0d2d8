// @ts-check
import { describe, expect, it } from 'vitest';
import { findViolations } from './layers.mjs';

/** @param {string} path @param {string} source */
const check = (path, source) =>
  findViolations([{ path, source }]).map(found => `${found.line}: ${found.rule}`);

describe('import layers', () => {
  it('accepts an ordinary file of each layer', () => {
    expect(check('protocol/src/a.ts', "import { Type } from '@sinclair/typebox';")).toEqual([]);
    expect(check('kernel-bridge/src/http/a.ts', "import { x } from '@tpulab/platform/b.js';")).toEqual([]);
    expect(check('extension/src/steps/model.ts', "import { Signal } from '@lumino/signaling';")).toEqual([]);
    expect(check('extension/src/steps/view.tsx', "import { useState } from 'react';")).toEqual([]);
    expect(check('kernel-agent/src/tpulab/measure/a.py', 'def f():\n    import jax\n')).toEqual([]);
  });

  it('keeps Node and our other packages out of the protocol', () => {
    expect(check('protocol/src/a.ts', "import fs from 'node:fs';")).toHaveLength(1);
    expect(check('protocol/src/a.ts', "import x from '@tpulab/kernel-bridge';")).toHaveLength(1);
  });

  it('names the line of an import that goes up a layer in the bridge', () => {
    const source = "// a\nimport type {\n  A\n} from '../http/app.js';";
    expect(check('kernel-bridge/src/journal/a.ts', source)).toEqual([
      expect.stringMatching(/^4: inside the bridge the order is jupyter ← .* ← gateway ← cli, index.ts$/)
    ]);
  });

  it.each([
    ['a feature has its routes with it', 'remotes', '../http/app.js', 0],
    ['a feature knows nothing of the composition', 'remotes', '../gateway/gateway.js', 1],
    ['rooms of one row do not import one another', 'channels', '../outputs/execution.js', 1],
    ['the HTTP room knows no feature', 'http', '../kernels/kernel.js', 1],
    ['the keeper knows nothing of its clients', 'keeper', '../keeper-client/client.js', 1],
    ['both sides know their common messages', 'keeper-client', '../keeper-protocol/frames.js', 0],
    ['the keeper has no gateway in it', 'keeper', '../http/app.js', 1],
    ['a folder that is in no row', 'attic', '../http/app.js', 1],
    ['the keeper is loaded without packages', 'keeper', 'pino', 1],
    ['…but with those of this computer', 'keeper', '@tpulab/platform/waiting.js', 0],
    ['…of which one imports packages', 'keeper', '@tpulab/platform/stored-list.js', 1],
    ['remotes know machines', 'remotes', '@tpulab/machines', 0],
    ['kernels know no machines', 'kernels', '@tpulab/machines', 1],
    ['only entries of another package are imported', 'remotes', '@tpulab/machines/ssh/master.js', 1],
    ['…by its name', 'remotes', '../../../machines/src/index.js', 1],
    ['…and with our own messages', 'keeper', '@tpulab/protocol', 0],
    ['the root may export anything', 'index.ts', './gateway/gateway.js', 0],
    ['product code does not use code for specs', 'kernels', './testing/kernel-story.js', 1]
  ])('in the bridge: %s', (_what, room, module, found) => {
    const path = `kernel-bridge/src/${room.endsWith('.ts') ? room : `${room}/a.ts`}`;
    expect(check(path, `import { a } from '${module}';`)).toHaveLength(found);
  });

  it.each([
    ['ssh reports typed errors', 'ssh/a.ts', '../remote-error.js', 0],
    ['ssh knows no connection', 'ssh/a.ts', '../remote.js', 1],
    ['a machine knows nothing of kernels', 'setup/a.ts', '../../../kernel-bridge/src/kernels/kernel.js', 1],
    ['…nor by name', 'remote.ts', '@tpulab/kernel-bridge', 1],
    ['rooms of one row do not import one another', 'gcloud/a.ts', '../colab/consent.js', 1],
    ['the connection knows all rooms', 'remote.ts', './slice/slice-setup.js', 0]
  ])('in machines: %s', (_what, file, module, found) => {
    expect(check(`machines/src/${file}`, `import { a } from '${module}';`)).toHaveLength(found);
  });

  it('keeps packages and our other packages out of platform', () => {
    const path = 'platform/src/a.ts';
    expect(check(path, "import { b } from './b.js';")).toEqual([]);
    expect(check(path, "import { b } from 'ws';")).toHaveLength(1);
    expect(check(path, "import { b } from '@tpulab/machines';")).toHaveLength(1);
  });

  it.each([
    ['files know no notebook', 'files/drive.ts', '../notebook/widgets.js', 1],
    ['a notebook knows no page', 'notebook/widgets.ts', '../page/session-page.js', 1],
    ['the shell draws all', 'shell/app.tsx', '../page/open-session.js', 0],
    ['rooms of the extension are used', 'page/session-page.ts', '../../src/events/plugin.js', 0]
  ])('in the session page: %s', (_what, file, module, found) => {
    expect(check(`extension/session/${file}`, `import { a } from '${module}';`)).toHaveLength(found);
  });

  it('keeps the session page out of the extension', () => {
    expect(check('extension/src/panel/a.ts', "import { a } from '../../session/text.js';")).not.toEqual([]);
  });

  it('finds an import cycle of files, types included', () => {
    const files = [
      { path: 'kernel-bridge/src/remotes/remote.ts', source: "import { Link } from './ssh/link.js';" },
      {
        path: 'kernel-bridge/src/remotes/ssh/link.ts',
        source: "// a\nimport type { Remote } from '../remote.js';"
      },
      { path: 'kernel-bridge/src/remotes/remotes.ts', source: "import { Remote } from './remote.js';" }
    ];
    expect(findViolations(files)).toEqual([
      {
        path: 'kernel-bridge/src/remotes/ssh/link.ts',
        line: 2,
        module: '../remote.js',
        rule: 'no imports in a circle: remote.ts → link.ts → remote.ts'
      }
    ]);
    expect(findViolations(files.filter(({ path }) => !path.endsWith('/link.ts')))).toEqual([]);
  });

  it.each([
    ['a feature draws with shared views', 'steps/view.tsx', '../ui/use-changes.js', 0],
    ['…which know no feature', 'ui/line.ts', '../steps/spans.js', 1],
    ['rooms of one row do not import one another', 'kernels/a.ts', '../remotes/actions.js', 1],
    ['features meet in tokens', 'reattach/a.ts', '../events/tokens.js', 0],
    ['…which hold no feature', 'tokens.ts', './backends/backends.js', 2],
    ['no feature imports a class of backends', 'remotes/plugin.ts', '../backends/backends.js', 1],
    ['…but who builds it', 'backends/plugin.ts', './backends.js', 0],
    ['a folder that is in no row', 'attic/a.ts', '../text/size.js', 1]
  ])('in the extension: %s', (_what, file, module, found) => {
    expect(check(`extension/src/${file}`, `import { a } from '${module}';`)).toHaveLength(found);
  });

  it('keeps React, Lumino widgets and the DOM out of models', () => {
    expect(check('extension/src/steps/model.ts', "import { Widget } from '@lumino/widgets';")).toHaveLength(
      1
    );
    expect(check('extension/src/steps/advice.ts', "import React from 'react';")).toHaveLength(1);
    expect(check('extension/src/steps/model.ts', 'const w = window.innerWidth;')).toEqual([
      '1: a model does not touch the DOM'
    ]);
    expect(check('extension/src/steps/model.ts', '// the window of steps\nconst x = step.window;')).toEqual(
      []
    );
  });

  it('lets only plugins import parts of the application', () => {
    const source = "import { JupyterFrontEnd } from '@jupyterlab/application';";
    expect(check('extension/src/steps/plugin.ts', source)).toEqual([]);
    expect(check('extension/src/steps/view.tsx', source)).toHaveLength(1);
    expect(check('extension/src/steps/view.tsx', source.replace('import', 'import type'))).toEqual([]);
  });

  it('keeps jax out of the import time of the agent, and torch_xla inside the runtime', () => {
    expect(check('kernel-agent/src/tpulab/measure/a.py', 'import jax.numpy as jnp\n')).toHaveLength(1);
    expect(check('recipes/src/tpulab_recipes/dia/train.py', 'import torch_xla\n')).toHaveLength(1);
    expect(check('recipes/src/tpulab_recipes/runtime/xla.py', 'import torch_xla\n')).toEqual([]);
  });

  it.each([
    ['the room for measurements knows messages and runtimes', 'measure', 'tpulab.telemetry.clocks', 0],
    ['…and no socket', 'measure', 'tpulab.agent.agent', 1],
    ['…and no command', 'measure', 'tpulab.control.controller', 1],
    ['rooms of one row do not import one another', 'runtimes', 'tpulab.control.state', 1],
    ['a public module stands above the rooms', 'loops.py', 'tpulab.measure.tracked_run', 0],
    ['…which know nothing of it', 'training', 'tpulab.loops', 1],
    ['nothing imports the package itself', 'hf.py', 'tpulab', 1],
    ['a package that is in no row', 'attic', 'tpulab.telemetry.clocks', 1],
    ['…nor is known', 'agent', 'tpulab.attic.clocks', 1],
    ['widgets act without a training', 'widgets', 'tpulab.training.run', 1],
    ['a module is named in full', 'measure', '.spans', 1],
    ['the room for messages imports no framework, even in a function', 'telemetry', '  torch', 1],
    ['the launcher starts the agent inside a function', 'launcher', '  tpulab.agent.process_agent', 0],
    ['…and nowhere else', 'launcher', 'tpulab.agent.process_agent', 1],
    ['the kernel of a slice is built on the launcher', 'slice', 'tpulab.launcher.recorded_kernel', 0],
    ['…and knows nothing of loops', 'slice', 'tpulab.loops', 1]
  ])('in the agent: %s', (_what, room, module, found) => {
    const path = `kernel-agent/src/tpulab/${room.endsWith('.py') ? room : `${room}/a.py`}`;
    const indent = module.startsWith(' ') ? '    ' : '';
    expect(check(path, `${indent}from ${module.trim()} import name\n`)).toHaveLength(found);
  });

  it('finds an import cycle of Python modules, even under TYPE_CHECKING and in functions', () => {
    const room = 'kernel-agent/src/tpulab/measure';
    const files = [
      { path: `${room}/__init__.py`, source: '"""Where time goes."""\n' },
      {
        path: `${room}/runs.py`,
        source: 'if TYPE_CHECKING:\n    from tpulab.measure.pace import Pace\n'
      },
      {
        path: `${room}/pace.py`,
        source: 'def f():\n    from tpulab.measure import (\n        spans,\n        runs as r,\n    )\n'
      },
      { path: `${room}/spans.py`, source: 'from tpulab.telemetry.clocks import now_ns\n' }
    ];
    expect(findViolations(files)).toEqual([
      {
        path: `${room}/pace.py`,
        line: 2,
        module: 'tpulab.measure.runs',
        rule: 'no imports in a circle: runs.py → pace.py → runs.py'
      }
    ]);
    expect(findViolations(files.filter(({ path }) => !path.endsWith('/pace.py')))).toEqual([]);
  });

  it('lets no package of the agent bear a public name', () => {
    const homes = {
      path: 'kernel-agent/src/tpulab/__init__.py',
      source: '_HOMES = {\n    "steps": "tpulab.loops",\n}\n'
    };
    const clock = { path: 'kernel-agent/src/tpulab/steps/clock.py', source: '' };
    expect(findViolations([homes, clock])).toEqual([
      { path: clock.path, line: 1, module: 'tpulab.steps', rule: 'no package bears a public name' }
    ]);
    expect(findViolations([homes, { ...clock, path: 'kernel-agent/src/tpulab/measure/clock.py' }])).toEqual(
      []
    );
  });

  it('keeps the rooms of the recipes in order', () => {
    const recipe = 'recipes/src/tpulab_recipes/ddpm/data/pipeline.py';
    expect(check(recipe, 'from tpulab_recipes.common.errors import DataError\n')).toEqual([]);
    expect(check(recipe, 'from tpulab_recipes.intents.data import encode\n')).toHaveLength(1);
    const common = 'recipes/src/tpulab_recipes/common/storage.py';
    expect(check(common, 'from tpulab_recipes import runtime\n')).toEqual([]);
    expect(check(common, '    from tpulab_recipes.ddpm.config import Config\n')).toHaveLength(1);
    const seam = 'recipes/src/tpulab_recipes/runtime/torch_xla.py';
    expect(check(seam, 'from tpulab_recipes.common.errors import RecipeError\n')).toHaveLength(1);
  });
});
