/** Content of a file as an address, for elements that cannot send a token. */
import { PathExt } from '@jupyterlab/coreutils';
import { messageOf } from '../text.js';

const TYPES: Readonly<Record<string, string>> = {
  ...{ png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp' },
  ...{ svg: 'image/svg+xml', avif: 'image/avif', bmp: 'image/bmp', ico: 'image/x-icon' },
  ...{
    wav: 'audio/wav',
    mp3: 'audio/mpeg',
    ogg: 'audio/ogg',
    oga: 'audio/ogg',
    flac: 'audio/flac',
    m4a: 'audio/mp4'
  },
  ...{ mp4: 'video/mp4', webm: 'video/webm', ogv: 'video/ogg', mov: 'video/quicktime' },
  ...{ css: 'text/css', vtt: 'text/vtt' }
};
/** Media type of a file that elements show, by its extension. */
export function typeOf(path: string): string | undefined {
  return TYPES[PathExt.extname(path).slice(1).toLowerCase()];
}

/** A file address for elements that cannot send a token: its content where the file is shown; otherwise null. */
export async function shownAddress(
  path: string,
  bytes: (path: string) => Promise<Blob>
): Promise<string | null> {
  const type = typeOf(path);
  if (type === undefined) return null;
  try {
    return await dataAddress(new Blob([await bytes(path)], { type }));
  } catch (error) {
    // The alternative text replaces it.
    // oxlint-disable-next-line no-console -- the console names the file for whoever investigates
    console.warn(`${path}: ${messageOf(error)}`);
    return 'data:,';
  }
}

function dataAddress(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener('load', () => resolve(reader.result as string));
    reader.addEventListener('error', () => reject(reader.error ?? new Error('unreadable')));
    reader.readAsDataURL(blob);
  });
}
