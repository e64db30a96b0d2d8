/**
 * `/bridge/v1/files/PATH`, `/bridge/v1/folders/PATH` and `/bridge/v1/trash`: the files below the root folder, for the session
 * page.
 */
import { Type } from '@sinclair/typebox';
import {
  FileEntry,
  FileMove,
  FileTrashed,
  FolderPage,
  MAX_FILE_BYTES,
  TrashEmptied,
  TrashPage,
  TrashRestore
} from '@tpulab/protocol';
import type { FastifyError, FastifyReply } from 'fastify';
import type { IncomingHttpHeaders } from 'node:http';
import type { Resource } from '../http/rights.js';
import { failure, notJson, route } from '../http/api-description.js';
import type { App } from '../http/app.js';
import { bridgeError } from '@tpulab/platform/errors.js';
import type { Expected, RootFolder } from './root-folder.js';

const Params = Type.Object({ '*': Type.String() });
const NOT_FOUND = failure('There is no such file or folder below the root folder.');
const WRONG_KIND = failure(
  'It exists already, or is a folder instead of a file, or a file instead of a folder.'
);
const FULL = failure('The disk is full; the old content is unchanged.');
/** RFC 9110, 8.8.3: a strong ETag; a weak one does not identify bytes. */
const ETAG = /^"[\x21\x23-\x7e]*"$/;

function notebookIn(params: Readonly<Record<string, string>>): Resource {
  return { kind: 'notebook', path: params['*'] ?? '' };
}

export async function addFilesRoutes(app: App, files: RootFolder): Promise<void> {
  app.get(
    '/bridge/v1/folders/*',
    route('What is in a folder', { 200: FolderPage, 404: NOT_FOUND, 409: WRONG_KIND }, { params: Params }),
    async ({ params }): Promise<FolderPage> => files.list(folderPath(params['*']))
  );
  app.post(
    '/bridge/v1/folders/*',
    route('Creates a folder', { 201: FileEntry, 404: NOT_FOUND, 409: WRONG_KIND }, { params: Params }),
    async ({ params }, reply) => reply.code(201).send(await files.makeFolder(folderPath(params['*'])))
  );
  app.get(
    '/bridge/v1/files/*',
    route(
      'The bytes of a file; its version is in ETag',
      {
        200: notJson('the file', 'application/octet-stream'),
        304: Type.Null({ description: 'The client has this version (If-None-Match).' }),
        404: NOT_FOUND,
        409: WRONG_KIND,
        413: failure('The file is too large.')
      },
      { access: ['read', notebookIn], params: Params }
    ),
    async ({ params, headers }, reply) => {
      const { bytes, entry } = await files.read(params['*']);
      versionHeaders(reply, entry);
      if (headers['if-none-match'] === entry.etag) return reply.code(304).send(null);
      return reply
        .headers({
          'content-type': 'application/octet-stream',
          // A browser that opens the file only downloads it: it runs nothing under the gateway's address.
          'content-disposition': 'attachment',
          'x-content-type-options': 'nosniff'
        })
        .send(bytes);
    }
  );
  app.patch(
    '/bridge/v1/files/*',
    route(
      'Renames a file or a folder',
      { 200: FileEntry, 404: NOT_FOUND, 409: WRONG_KIND },
      { params: Params, body: FileMove }
    ),
    async ({ params, body }): Promise<FileEntry> => files.move(params['*'], body.to)
  );
  app.delete(
    '/bridge/v1/files/*',
    route(
      'Moves a file or a folder into the trash below the root folder',
      { 200: FileTrashed, 404: NOT_FOUND },
      { params: Params }
    ),
    async ({ params }): Promise<FileTrashed> => files.trash(params['*'])
  );
  app.get(
    '/bridge/v1/trash',
    route('What is in the trash below the root folder', { 200: TrashPage }),
    async (): Promise<TrashPage> => files.listTrash()
  );
  app.delete(
    '/bridge/v1/trash',
    route('Deletes what is in the trash permanently', { 200: TrashEmptied }),
    async (): Promise<TrashEmptied> => ({ deleted: await files.emptyTrash() })
  );
  app.delete(
    '/bridge/v1/trash/:id',
    route(
      'Deletes one file or folder in the trash permanently',
      { 204: Type.Null(), 404: NOT_FOUND },
      { params: Type.Object({ id: Type.String() }) }
    ),
    async ({ params }, reply) => {
      await files.removeFromTrash(params.id);
      return reply.code(204).send(null);
    }
  );
  app.post(
    '/bridge/v1/trash/restore',
    route(
      'Moves a file or a folder from the trash to its old path',
      { 200: FileEntry, 404: NOT_FOUND, 409: WRONG_KIND },
      { body: TrashRestore }
    ),
    async ({ body }): Promise<FileEntry> => files.restore(body.id)
  );
  await app.register(async scope => {
    // The body is raw bytes, whatever its type: a notebook is stored unparsed.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
    scope.setErrorHandler((error: FastifyError, request) => {
      const isTooLarge = error.code === 'FST_ERR_CTP_BODY_TOO_LARGE';
      throw isTooLarge
        ? bridgeError('file_too_large', (request.params as { '*': string })['*'], MAX_FILE_BYTES)
        : error;
    });
    scope.put(
      '/bridge/v1/files/*',
      {
        config: { access: ['run', notebookIn] },
        bodyLimit: MAX_FILE_BYTES,
        schema: {
          summary: 'Writes a file atomically: over the version in If-Match, or as a new file',
          params: Params,
          response: {
            200: FileEntry,
            201: FileEntry,
            404: NOT_FOUND,
            409: WRONG_KIND,
            412: failure('The file has changed since the version in If-Match.'),
            428: failure('The file exists, and no version was sent.'),
            507: FULL
          }
        }
      },
      async (request, reply) => {
        const { params, headers, body } = request;
        const bytes = Buffer.isBuffer(body) ? body : Buffer.alloc(0);
        const path = (params as { '*': string })['*'];
        const { entry, isNew } = await files.write(path, bytes, expectedOf(headers));
        versionHeaders(reply, entry);
        return reply.code(isNew ? 201 : 200).send(entry);
      }
    );
  });
}

/** The path of a folder may end with a slash. */
function folderPath(path: string): string {
  return path.replace(/\/$/, '');
}

function versionHeaders(reply: FastifyReply, { etag, modifiedAt, createdAt, isWritable }: FileEntry): void {
  reply.headers({
    ...(etag === null ? {} : { etag }),
    'last-modified': new Date(modifiedAt).toUTCString(),
    // With milliseconds, which HTTP's own header cannot contain.
    'x-tpulab-modified': modifiedAt,
    'x-tpulab-created': createdAt,
    'x-tpulab-writable': String(isWritable)
  });
}

/** @throws BridgeError `invalid_request` for an invalid condition, or for two conditions together */
function expectedOf(headers: IncomingHttpHeaders): Expected {
  const match = headers['if-match'];
  const noneMatch = headers['if-none-match'];
  if (match !== undefined && noneMatch === undefined && ETAG.test(match)) return { etag: match };
  if (match === undefined && noneMatch === '*') return 'absent';
  if (match === undefined && noneMatch === undefined) return null;
  throw bridgeError('invalid_request', 'Send one condition: If-Match with one version, or If-None-Match: *.');
}
