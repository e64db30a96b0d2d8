/** `/bridge/v1/checks/PATH`: starts, follows and stops the pre-flight check of a notebook below the root folder. */
import { Type } from '@sinclair/typebox';
import { CheckRequest, NotebookCheck, PriceChange } from '@tpulab/protocol';
import { requireMay, type RouteAccess } from '../http/access-hooks.js';
import { failure, route } from '../http/api-description.js';
import type { App } from '../http/app.js';
import type { NotebookChecks } from './notebook-checks.js';

const Params = Type.Object({ '*': Type.String() });
const NOT_FOUND = failure('There is no such notebook below the root folder.');
/** A check runs the notebook's code. */
const ACCESS: RouteAccess = ['run', params => ({ kind: 'notebook', path: params['*'] ?? '' })];
const PATH = '/bridge/v1/checks/*';

export function addPreflightRoutes(app: App, checks: NotebookChecks): void {
  app.get(
    PATH,
    route(
      'The running check of a notebook, and its last report',
      { 200: NotebookCheck, 404: NOT_FOUND },
      { access: ACCESS, params: Params }
    ),
    async ({ params }) => checks.status(params['*'])
  );
  app.post(
    PATH,
    route(
      'Starts the check of a saved notebook',
      { 202: NotebookCheck, 404: NOT_FOUND, 409: failure('Another check runs, or none is possible here.') },
      { access: ACCESS, params: Params, body: CheckRequest }
    ),
    async ({ params, body, raw }, reply) => {
      if (body.on !== undefined) requireMay(raw, 'spend', { kind: 'remote', name: body.on });
      return reply.code(202).send(await checks.start(params['*'], body));
    }
  );
  app.put(
    PATH,
    route(
      "Writes the user's price list, and puts its prices into the last report",
      { 200: NotebookCheck, 404: NOT_FOUND, 400: failure('tpulab.toml names another list.') },
      { access: ACCESS, params: Params, body: PriceChange }
    ),
    async ({ params, body }) => checks.setPrices(params['*'], body)
  );
  app.get(
    '/bridge/v1/check-reports/*',
    route(
      'The whole last report of a notebook, as `tpulab check --json` writes it',
      { 200: Type.Unknown(), 404: NOT_FOUND },
      { access: ACCESS, params: Params }
    ),
    async ({ params }) => checks.report(params['*'])
  );
  app.delete(
    PATH,
    route(
      'Ends the running check and its processes',
      { 200: NotebookCheck, 404: NOT_FOUND },
      { access: ACCESS, params: Params }
    ),
    async ({ params }) => checks.cancel(params['*'])
  );
}
