/** Pictures, sound and text that a run has logged: in the panel of the session page, and on the page of runs. */
import { notebookText } from './notebook-file.js';
import { cell, complaintsOf, expect, open, run, test } from './session-steps.js';

const LOG = `import struct, time, zlib, tpulab

class Figure:
    """Like one of matplotlib: 8 x 8 pixels of one colour."""
    def __init__(self, red):
        self.red = red
    def get_size_inches(self):
        return (1.0, 1.0)
    def savefig(self, file, **_):
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        rows = (b"\\0" + bytes((self.red, 0, 0)) * 8) * 8
        head = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
        file.write(b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

class Broken(Figure):
    def savefig(self, file, **_):
        raise OSError("no such font")

run = tpulab.run("drawing")
for step in run.steps(range(3)):
    run.log(loss=1 / (step + 1), sample=Figure(100 + 50 * step), words=f"step {step} <b>says</b>")
    time.sleep(0.05)
run.log(sketch=Broken(1))
run.finish()
print("drawn")`;

test('shows logged pictures and text in the panel and in Runs, and names what was left out', async ({
  page,
  gateway
}) => {
  const complaints = complaintsOf(page);
  await gateway.write('media.ipynb', notebookText([LOG]));
  await open(page, gateway, 'media.ipynb');
  await run(page, 0);
  await expect(cell(page, 0)).toContainText('drawn');
  await page.getByRole('button', { name: 'Open panel' }).click();

  const newest = page.getByRole('figure', { name: 'sample at step 2' });
  const pixel = (): Promise<number[]> =>
    page.locator('.jp-TPULabMedia img').evaluate(async (picture: HTMLImageElement) => {
      await picture.decode();
      const canvas = document.createElement('canvas');
      canvas.width = picture.naturalWidth;
      const context = canvas.getContext('2d');
      context?.drawImage(picture, 0, 0);
      return [picture.naturalWidth, picture.naturalHeight, ...(context?.getImageData(3, 3, 1, 1).data ?? [])];
    });
  await expect(newest.getByRole('img')).toBeVisible();
  expect(await pixel()).toEqual([8, 8, 200, 0, 0, 255]);
  await expect(page.getByRole('figure', { name: 'words at step 2' })).toContainText('step 2 <b>says</b>');

  // The slider goes back to the first step.
  await page.getByRole('slider', { name: 'Step of sample' }).press('Home');
  await expect(page.getByRole('figure', { name: 'sample at step 0' }).getByRole('img')).toBeVisible();
  await expect.poll(pixel).toEqual([8, 8, 100, 0, 0, 255]);
  await expect(page.getByText(/sketch.*no such font/)).toBeVisible();

  await page.goto(gateway.link());
  await page.getByRole('link', { name: 'Runs', exact: true }).click();
  await page
    .getByRole('region', { name: 'Table of runs' })
    .getByRole('button', { name: 'drawing', exact: true })
    .click();
  const whole = page.getByRole('article', { name: 'Run drawing' });
  await expect(whole.getByRole('figure', { name: 'sample at step 2' }).getByRole('img')).toBeVisible();
  expect(await pixel()).toEqual([8, 8, 200, 0, 0, 255]);
  await expect(whole.getByRole('figure', { name: 'words at step 2' })).toContainText('step 2 <b>says</b>');
  // A picture may reach the page before its file is written: then the page requests it again, and the browser reports a 404.
  expect(complaints.filter(text => !/404 .*\/media\/\d+$/.test(text))).toEqual([]);
});
