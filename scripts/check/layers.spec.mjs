// @ts-check
import { describe, expect, it } from 'vitest';
import { findViolations } from './layers.mjs';

/** @param {string} path @param {string} source */
const check = (path, source) =>
  findViolations([{ path, source }]).map(found => `${found.line}: ${found.rule}`);

describe('import layers', () => {
  it('lets an ordinary file of each layer pass', () => {
    expect(check('protocol/src/a.ts', "import { Type } from '@sinclair/typebox';")).toEqual([]);
    expect(check('kernel-bridge/src/server/a.ts', "import { x } from '../keeper/b.js';")).toEqual([]);
    expect(check('extension/src/steps/model.ts', "import { Signal } from '@lumino/signaling';")).toEqual([]);
    expect(check('extension/src/steps/view.tsx', "import { useState } from 'react';")).toEqual([]);
    expect(check('kernel-agent/src/tpulab/a.py', 'def f():\n    import jax\n')).toEqual([]);
  });

  it('keeps Node and our other packages out of the protocol', () => {
    expect(check('protocol/src/a.ts', "import fs from 'node:fs';")).toHaveLength(1);
    expect(check('protocol/src/a.ts', "import x from '@tpulab/kernel-bridge';")).toHaveLength(1);
  });

  it('names the line of an import that goes up a layer in the bridge', () => {
    const source = "// a\nimport type {\n  A\n} from '../server/app.js';";
    expect(check('kernel-bridge/src/journal/a.ts', source)).toEqual([
      '4: inside the bridge the order is text ← processes ← wire ← zmtp ← journal ← keeper ← kernels ← channels ← sessions ← outputs ← tokens ← server ← config ← cli'
    ]);
  });

  it('lets environments hang on the server alone', () => {
    expect(
      check('kernel-bridge/src/kernels/a.ts', "import { E } from '../environments/index.js';")
    ).toHaveLength(1);
    expect(check('kernel-bridge/src/cli/a.ts', "import { E } from '../environments/index.js';")).toEqual([]);
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
    expect(check('kernel-agent/src/tpulab/a.py', 'import jax.numpy as jnp\n')).toHaveLength(1);
    expect(check('recipes/src/tpulab_recipes/dia/train.py', 'import torch_xla\n')).toHaveLength(1);
    expect(check('recipes/src/tpulab_recipes/runtime/xla.py', 'import torch_xla\n')).toEqual([]);
  });
});
