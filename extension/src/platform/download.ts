/** Hands a file to the browser, which saves it in its download folder. */
export function download(path: string, content: BlobPart, type = 'application/octet-stream'): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = path.split('/').at(-1) ?? path;
  link.click();
  // The browser has a reference to it by the next turn.
  setTimeout(() => URL.revokeObjectURL(url), 0);
}
