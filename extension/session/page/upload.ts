/** Copies files of this computer into a folder below the gateway's root folder. Loaded when it is needed. */
import { MAX_FILE_BYTES, sizeText } from '@tpulab/protocol';
import { FileRefusedError } from '../files/file-client.js';
import { messageOf, trans } from '../text.js';
import { sure } from '../../src/ui/sure.js';
import type { SessionPage } from './session-page.js';

/** Replaces existing files only with consent, and moves them to the trash. Never rejects. @param showProgress receives the progress */
export async function upload(
  { drive: { files } }: SessionPage,
  folder: string,
  chosen: readonly File[],
  showProgress: (text: string) => void
): Promise<void> {
  const problems: string[] = [];
  let done = 0;
  const put = async (list: readonly File[], replaces: boolean): Promise<File[]> => {
    const existing: File[] = [];
    for (const [at, file] of list.entries()) {
      const path = folder === '' ? file.name : `${folder}/${file.name}`;
      showProgress(trans.__('Uploading %1 of %2: %3', at + 1, list.length, file.name));
      try {
        if (file.size > MAX_FILE_BYTES) {
          const limit = sizeText(MAX_FILE_BYTES);
          throw new Error(trans.__('it is larger than %1. Use tpulab copy push or scp.', limit));
        }
        const content = await file.arrayBuffer();
        await (replaces ? files.replace(path, content) : files.write(path, content, null));
        done += 1;
      } catch (error) {
        if (error instanceof FileRefusedError && error.code === 'file_exists') existing.push(file);
        else problems.push(trans.__('%1 was not uploaded: %2', file.name, messageOf(error)));
      }
    }
    return existing;
  };
  const existing = await put(chosen, false);
  const names = existing.map(({ name }) => name).join(', ');
  const title = trans._n('Replace %1 file?', 'Replace %1 files?', existing.length);
  const body = trans.__('Existing files are moved to the trash: %1', names);
  if (existing.length > 0 && (await sure(title, body, trans.__('Replace')))) await put(existing, true);
  showProgress([trans._n('%1 file was uploaded.', '%1 files were uploaded.', done), ...problems].join(' '));
}
