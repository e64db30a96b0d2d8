/** Files below the gateway's root folder, as `/bridge/v1/files` and `/bridge/v1/folders` describe them. */
import { type Static, Type } from '@sinclair/typebox';

/** Size of one file that `/bridge/v1/files` reads or writes. */
export const MAX_FILE_BYTES = 64 * 2 ** 20;

const Kind = Type.Union([Type.Literal('file'), Type.Literal('folder')]);

const FilePath = Type.String({
  description: 'relative to the root folder, with slashes; the root itself is empty'
});

export const FileEntry = Type.Object({
  name: Type.String(),
  path: FilePath,
  kind: Kind,
  sizeBytes: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], { description: 'null for a folder' }),
  modifiedAt: Type.String({ description: 'ISO 8601' }),
  createdAt: Type.String({ description: 'ISO 8601' }),
  isWritable: Type.Boolean(),
  etag: Type.Union([Type.String(), Type.Null()], { description: 'the version of a file; null for a folder' })
});
export type FileEntry = Static<typeof FileEntry>;

export const FolderPage = Type.Object({
  path: FilePath,
  entries: Type.Array(FileEntry, { description: 'folders first, then by name; hidden ones are left out' }),
  isCut: Type.Boolean({ description: 'there are more than are listed' })
});
export type FolderPage = Static<typeof FolderPage>;

export const FileMove = Type.Object(
  { to: Type.String({ description: 'new path; nothing may be there', maxLength: 4096 }) },
  { additionalProperties: false }
);
export type FileMove = Static<typeof FileMove>;

const TrashId = Type.String({ description: 'of one deletion', maxLength: 64 });

export const FileTrashed = Type.Object({
  path: FilePath,
  id: TrashId,
  trashed: Type.String({ description: 'where it is now, relative to the root folder' })
});
export type FileTrashed = Static<typeof FileTrashed>;

export const TrashItem = Type.Object({
  id: TrashId,
  path: Type.String({ description: 'before it was deleted, relative to the root folder' }),
  kind: Kind,
  deletedAt: Type.String({ description: 'ISO 8601' })
});
export type TrashItem = Static<typeof TrashItem>;

export const TrashPage = Type.Object({
  items: Type.Array(TrashItem, { description: 'the latest first' }),
  isCut: Type.Boolean({ description: 'there are more than are listed' })
});
export type TrashPage = Static<typeof TrashPage>;

export const TrashRestore = Type.Object({ id: TrashId }, { additionalProperties: false });
export type TrashRestore = Static<typeof TrashRestore>;

export const TrashEmptied = Type.Object({
  deleted: Type.Integer({ minimum: 0, description: 'how many files and folders were in it' })
});
export type TrashEmptied = Static<typeof TrashEmptied>;
