/** The outputs of ordinary notebooks, checked in the same way in the session page and in JupyterLab. */
import { expect, type FrameLocator, type Locator, type Page } from '@playwright/test';
import { notebookText } from './notebook-file.js';

const FAR = 'https://pictures.invalid/far.png';
/** A picture of one pixel. */
const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

const FIGURES = `import io, warnings
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Audio, HTML, Image, clear_output, display
from matplotlib_inline.backend_inline import set_matplotlib_formats
from PIL import Image as Picture
%matplotlib inline
for form in ["png", "svg", "retina", "jpeg"]:
    set_matplotlib_formats(form)
    plt.figure(figsize=(1, 1))
    plt.plot(np.arange(5))
    plt.show()
for form in ["webp", "gif"]:
    data = io.BytesIO()
    Picture.new("RGB", (30, 30), "teal").save(data, form)
    display(Image(data.getvalue(), format=form))`;
const FRAMES = `import time
for i in range(6):
    clear_output(wait=True)
    print("frame", i)
    time.sleep(0.1)`;
const BY_ID = `import threading
one = display("zero", display_id=True)
one.update("one")
late = display("t0", display_id=True)
def update():
    for i in range(5):
        late.update(f"t{i}")
thread = threading.Thread(target=update)
thread.start()
thread.join()
print("\\x1b[38;5;208m256\\x1b[0m \\x1b[38;2;0;200;100mtrue\\x1b[0m")`;
const INPUTS = `from getpass import getpass
name = input("name? ")
print(name.upper(), len(getpass("secret? ")))`;
const MOVES = `from ipywidgets import interact
@interact(x=(1, 10))
def show(x=2):
    print("drawn to", x)
    plt.figure(figsize=(1, 1))
    plt.plot(range(x))
    plt.show()`;
const CONTINUES = `import ipywidgets
from tqdm.auto import tqdm
number = ipywidgets.IntText(0)
display(number)
for i in tqdm(range(30)):
    number.value = i
    time.sleep(0.5)`;

const SOUND = 'Audio(np.sin(np.arange(8000) / 9), rate=8000)';
const CELLS = [FIGURES, FRAMES, BY_ID, SOUND, MOVES, INPUTS, CONTINUES];

export const ordinaryNotebook = (kernel: string): string => notebookText(CELLS, kernel);

const output = (page: Page, at: number): Locator =>
  page.locator('.jp-CodeCell').nth(at).locator('.jp-OutputArea').first();
const isDrawn = (image: HTMLImageElement): boolean => image.complete && image.naturalWidth > 0;

/** The whole notebook runs; the page is reloaded in the meantime. */
export async function checkOrdinary(page: Page): Promise<void> {
  const figures = output(page, 0).locator('.jp-OutputArea-output').locator('img, svg');
  await expect(figures).toHaveCount(6);
  for (const image of await figures.locator('xpath=self::img').all())
    await expect.poll(() => image.evaluate(isDrawn as never)).toBe(true);
  await expect(output(page, 1)).toHaveText(/^\s*frame 5\s*$/);
  await expect(output(page, 2)).toContainText("'one'");
  await expect(output(page, 2)).toContainText("'t4'");
  await expect(output(page, 2).getByText('256', { exact: true })).toHaveCSS('color', 'rgb(255, 135, 0)');
  await expect(output(page, 2).getByText('true', { exact: true })).toHaveCSS('color', 'rgb(0, 200, 100)');
  await expect
    .poll(() =>
      output(page, 3)
        .locator('audio')
        .evaluate((audio: HTMLAudioElement) => audio.duration)
    )
    .toBe(1);
  await expect(output(page, 4)).toContainText('drawn to 2');
  // The plot is drawn by its kernel, before or after the kernel waits for this answer.
  const prompt = output(page, 5).locator('input');
  await prompt.fill('ada');
  await prompt.press('Enter');
  const secret = output(page, 5).locator('input[type="password"]');
  await secret.fill('hidden');
  await secret.press('Enter');
  await expect(output(page, 5)).toContainText('ADA 6');
  await expect(output(page, 5)).not.toContainText('hidden');
  const number = output(page, 6).locator('input[type="number"]');
  await expect(number).not.toHaveValue('0');
  await page.reload();
  await expect(output(page, 6)).toContainText('30/30');
  await expect(number).toHaveValue('29');
  await expect(output(page, 6).locator('.jp-OutputArea-child')).toHaveCount(2);
  const handle = output(page, 4).locator('.noUi-handle');
  await handle.focus();
  await handle.press('ArrowRight');
  await expect(output(page, 4)).toContainText('drawn to 3');
  await expect(output(page, 4).locator('img')).toHaveCount(1);
}

/** A notebook with pictures from the network. */
export function remotePictures(kernel: string): string {
  const code = JSON.parse(
    notebookText(
      [
        `from IPython.display import HTML, Image\nImage(url="${FAR}")`,
        `HTML("<img src='${FAR}' alt=far><script>1</script>")`
      ],
      kernel
    )
  ) as { cells: object[] };
  const text = { cell_type: 'markdown', id: 'badge', metadata: {}, source: `![badge](${FAR})` };
  return JSON.stringify({ ...code, cells: [text, ...code.cells] });
}

/** Called before a page is opened: the network of this test has the picture. */
export async function serveRemotePicture(page: Page): Promise<void> {
  await page.route(FAR, route =>
    route.fulfill({ contentType: 'image/png', body: Buffer.from(PIXEL, 'base64') })
  );
}

/** @param inFrame where the page shows an output with a script */
export async function checkRemotePictures(page: Page, inFrame: Locator | FrameLocator): Promise<void> {
  for (const image of [
    page.getByAltText('badge'),
    output(page, 0).locator('img'),
    inFrame.getByAltText('far')
  ])
    await expect.poll(() => image.evaluate(isDrawn as never)).toBe(true);
}
