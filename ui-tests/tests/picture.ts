/** Properties of pictures in the page: their bytes, their size, and the position of a line in them. */
import type { Locator } from '@playwright/test';

export interface Picture {
  /** SHA-256 of the file, for comparison with the kernel's data. */
  readonly sha256: string;
  readonly width: number;
  readonly height: number;
}

/** Reads an `img` that has loaded. */
export function readPicture(image: Locator): Promise<Picture> {
  return image.evaluate(async (element: HTMLImageElement) => {
    await element.decode();
    const bytes = await (await fetch(element.src)).arrayBuffer();
    const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
    return {
      sha256: Array.from(digest, byte => byte.toString(16).padStart(2, '0')).join(''),
      width: element.naturalWidth,
      height: element.naturalHeight
    };
  });
}

/** Height of a line of this colour at its left and at its right end, as shares of the picture's height. */
export function lineEnds(
  image: Locator,
  colour: readonly [number, number, number]
): Promise<{ left: number; right: number }> {
  return image.evaluate(async (element: HTMLImageElement, wanted) => {
    await element.decode();
    const [width, height] = [element.naturalWidth, element.naturalHeight];
    const canvas = new OffscreenCanvas(width, height);
    const context = canvas.getContext('2d');
    if (!context) throw new Error('The page has no canvas.');
    context.drawImage(element, 0, 0);
    const { data } = context.getImageData(0, 0, width, height);
    const heights: number[] = [];
    for (let x = 0; x < width; x += 1) {
      const rows: number[] = [];
      for (let y = 0; y < height; y += 1) {
        // Where another line or a soft edge covers it the colour differs; the rest of the column is sufficient.
        const off = wanted.map((value, channel) =>
          Math.abs(value - (data[(y * width + x) * 4 + channel] ?? 0))
        );
        if (Math.max(...off) < 24) rows.push(y);
      }
      if (rows.length > 0) heights.push(1 - rows.reduce((sum, y) => sum + y, 0) / rows.length / height);
    }
    const [left, right] = [heights.at(0), heights.at(-1)];
    if (left === undefined || right === undefined) throw new Error('The picture has no line of this colour.');
    return { left, right };
  }, colour);
}
