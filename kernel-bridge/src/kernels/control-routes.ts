/** Steering runs (`/bridge/v1/kernels/:id/control`). What became of a command later comes over the events socket (topic runs). */
import { Type } from '@sinclair/typebox';
import { ControlAnswer, ControlCommand } from '@tpulab/protocol';
import type { KernelRegistry } from './kernel-registry.js';
import { kernelIn } from '../http/access-hooks.js';
import { failure } from '../http/api-description.js';
import type { App } from '../http/app.js';

export function addControlRoutes(app: App, registry: KernelRegistry): void {
  app.post(
    '/bridge/v1/kernels/:kernelId/control',
    {
      config: { access: ['steer', kernelIn] },
      schema: {
        summary: 'Control a run of a kernel while its cell is busy',
        description:
          'Pause, resume, stop after this step, set a hyperparameter, checkpoint, evaluate, sample, or free memory. The answer says whether the command was accepted or refused; it is applied at the end of the running step, and reported as a `control` message on the events socket. A command is applied once, however often it is sent with the same id.',
        params: Type.Object({ kernelId: Type.String() }),
        body: ControlCommand,
        response: {
          200: ControlAnswer,
          404: failure('No kernel has this id.'),
          409: failure('This kernel accepts no commands for runs.'),
          504: failure('The kernel did not answer; send the command again with the same id.')
        }
      }
    },
    async request => registry.get(request.params.kernelId).control(request.body)
  );
}
