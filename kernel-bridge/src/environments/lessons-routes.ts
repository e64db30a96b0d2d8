/** `POST /bridge/v1/lessons`: the lessons, copied to where the page's file browser shows them. */
import { realpath } from 'node:fs/promises';
import path from 'node:path';
import { LessonsCopied } from '@tpulab/protocol';
import { copyLessons, lessonsFolder } from './index.js';
import { LessonsUnavailableError } from '../http/errors.js';
import { failure } from '../http/api-description.js';
import type { App } from '../http/app.js';

/** In the root folder. */
const FOLDER = 'tpulab-lessons';

export function addLessonsRoutes(app: App, rootDir: string): void {
  app.post(
    '/bridge/v1/lessons',
    {
      schema: {
        summary:
          'Copies the lessons to a folder below the root folder, unless the root folder has them; existing notebooks are kept',
        response: { 200: LessonsCopied, 500: failure('They cannot be copied; the message says why.') }
      }
    },
    async (): Promise<LessonsCopied> => {
      try {
        const from = lessonsFolder();
        // As in a checkout, where people work in the lessons themselves.
        const folder = (await isSame(from, rootDir)) ? '' : FOLDER;
        return { ...(await copyLessons(path.join(rootDir, folder), from)), folder };
      } catch (error) {
        throw new LessonsUnavailableError(error);
      }
    }
  );
}

async function isSame(one: string, other: string): Promise<boolean> {
  const [first, second] = await Promise.all([one, other].map(folder => realpath(folder).catch(() => folder)));
  return first === second;
}
