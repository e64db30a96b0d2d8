/**
 * Copies a folder to a remote, or from it: `POST`, `GET`, `DELETE /bridge/v1/machines/NAME/sync`.
 *
 * A dry run is answered with the planned changes. Otherwise the answer is the state of the started run; `GET` returns its
 * progress, `DELETE` ends it. One run per remote at a time.
 */
import { type Static, Type } from '@sinclair/typebox';
import { JobError, JobState } from './jobs.js';

const Folder = Type.String({ minLength: 1, maxLength: 4096 });
const Patterns = Type.Array(Type.String({ minLength: 1, maxLength: 512 }), { maxItems: 200 });

export const SyncDirection = Type.Union([Type.Literal('to-remote'), Type.Literal('from-remote')]);
export type SyncDirection = Static<typeof SyncDirection>;

export const SyncRequest = Type.Object(
  {
    localFolder: Type.String({
      minLength: 1,
      maxLength: 4096,
      description: 'absolute, or beginning with `~/`'
    }),
    remoteFolder: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 4096,
        description:
          'absolute, or below the folder in which kernels start there (the home folder; on Colab `/content`); else the last part of `localFolder`'
      })
    ),
    direction: SyncDirection,
    include: Type.Optional(Patterns),
    exclude: Type.Optional(Patterns),
    delete: Type.Optional(Type.Boolean({ description: 'also delete files that the source does not have' })),
    dryRun: Type.Optional(Type.Boolean())
  },
  { additionalProperties: false }
);
export type SyncRequest = Static<typeof SyncRequest>;

export const SyncChange = Type.Object({
  path: Type.String({ description: 'relative to the folder' }),
  action: Type.Union([Type.Literal('send'), Type.Literal('receive'), Type.Literal('delete')]),
  bytes: Type.Number({ minimum: 0 }),
  newer: Type.Optional(
    Type.Literal(true, { description: 'the file that is overwritten is newer than its replacement' })
  )
});
export type SyncChange = Static<typeof SyncChange>;

/** Files that are not copied, or could not be. */
export const SyncLeftOut = Type.Object({
  path: Type.String({ description: 'relative to the folder; bytes that are no text as `\\xNN`' }),
  reason: Type.String(),
  failed: Type.Optional(Type.Literal(true, { description: 'it should have been copied' }))
});
export type SyncLeftOut = Static<typeof SyncLeftOut>;

const LeftOut = {
  leftOut: Type.Array(SyncLeftOut, { description: 'at most 100; `leftOutCount` is of all' }),
  leftOutCount: Type.Integer({ minimum: 0 })
};

/** The result of a dry run. */
export const SyncPlan = Type.Object({
  localFolder: Folder,
  remoteFolder: Folder,
  transport: Type.Optional(
    Type.Union([Type.Literal('rsync'), Type.Literal('tar')], {
      description: 'tar where one of the machines has no rsync 3: whole files, and no links'
    })
  ),
  changes: Type.Array(SyncChange, { description: 'at most 1000; the counts are of all' }),
  files: Type.Integer({ minimum: 0 }),
  newer: Type.Integer({ minimum: 0, description: 'of `files`: overwrite a file that is newer' }),
  deletions: Type.Integer({ minimum: 0 }),
  ...LeftOut,
  bytes: Type.Number({ minimum: 0 })
});
export type SyncPlan = Static<typeof SyncPlan>;

export const SyncStatus = Type.Object({
  state: JobState,
  localFolder: Type.String(),
  remoteFolder: Type.String(),
  files: Type.Integer({ minimum: 0 }),
  totalFiles: Type.Integer({ minimum: 0 }),
  bytes: Type.Number({ minimum: 0 }),
  totalBytes: Type.Number({ minimum: 0 }),
  ...LeftOut,
  error: JobError
});
export type SyncStatus = Static<typeof SyncStatus>;
