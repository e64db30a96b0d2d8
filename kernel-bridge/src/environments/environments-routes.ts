/** Kernel environments of this machine under `/bridge/v1/environments`: lists them, and creates one. */
import { realpath } from 'node:fs/promises';
import path from 'node:path';
import { Type } from '@sinclair/typebox';
import { EnvironmentCreation, EnvironmentInfo, LessonsCopied } from '@tpulab/protocol';
import { failure, route } from '../http/api-description.js';
import type { App } from '../http/app.js';
import { bridgeError } from '@tpulab/platform/errors.js';
import { copyLessons, type EnvironmentCreations, lessonsFolder } from '@tpulab/machines/environments';

const Params = Type.Object({ name: Type.String({ pattern: '^[a-z0-9][a-z0-9-]*$', maxLength: 64 }) });
const UNKNOWN = failure('There is no environment of this name.');
const PATH = '/bridge/v1/environments/:name/creation';

export function addEnvironmentsRoutes(app: App, creations: EnvironmentCreations): void {
  const requireName = async (name: string): Promise<string> => {
    if ((await creations.list()).some(info => info.name === name)) return name;
    throw bridgeError('env_unknown', name);
  };

  app.get(
    '/bridge/v1/environments',
    route('Kernel environments', { 200: Type.Array(EnvironmentInfo) }),
    async () => creations.list()
  );

  app.post(
    PATH,
    route(
      'Starts creating an environment, or joins the running creation',
      { 202: EnvironmentCreation, 404: UNKNOWN },
      { params: Params }
    ),
    async (request, reply) => reply.code(202).send(creations.start(await requireName(request.params.name)))
  );

  app.get(
    PATH,
    route(
      'State of the current or last creation',
      { 200: EnvironmentCreation, 404: UNKNOWN },
      { params: Params }
    ),
    async request => creations.status(await requireName(request.params.name))
  );

  app.delete(
    PATH,
    route(
      'Ends the running creation, which leaves nothing behind',
      { 200: EnvironmentCreation, 404: UNKNOWN },
      { params: Params }
    ),
    async request => {
      const name = await requireName(request.params.name);
      await creations.cancel(name);
      return creations.status(name);
    }
  );
}

/** Below the root folder. */
const FOLDER = 'tpulab-lessons';

export function addLessonsRoutes(app: App, rootDir: string): void {
  app.post(
    '/bridge/v1/examples',
    route(
      'Copies the lessons to a folder below the root folder, unless the root folder has them; existing notebooks are kept',
      { 200: LessonsCopied, 500: failure('They cannot be copied; the message says why.') }
    ),
    async (): Promise<LessonsCopied> => {
      try {
        const from = lessonsFolder();
        // As in a checkout, where people work directly in the lessons.
        const folder = (await isSame(from, rootDir)) ? '' : FOLDER;
        return { ...(await copyLessons(path.join(rootDir, folder), from)), folder };
      } catch (error) {
        throw bridgeError('lessons_not_written', error);
      }
    }
  );
}

async function isSame(one: string, other: string): Promise<boolean> {
  const [first, second] = await Promise.all([one, other].map(folder => realpath(folder).catch(() => folder)));
  return first === second;
}
