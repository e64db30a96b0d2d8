/** Outputs with scripts in the session page: where they run, what they can access there, and where they do not run. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FrameLocator, Locator, Page } from '@playwright/test';
import { OTHER_PACKAGES, OTHERS_PYTHON } from '../lab/paths.js';
import { SessionGateway } from '../lab/session-gateway.js';
import { notebookText } from './notebook-file.js';
import {
  remotePictures,
  serveRemotePicture,
  checkRemotePictures,
  checkOrdinary,
  ordinaryNotebook
} from './ordinary-outputs.js';
import { isShown, PACKAGES } from './other-packages.js';
import { cell, expect, open, run, test } from './session-steps.js';

const frame = (page: Page, at: number): FrameLocator => cell(page, at).frameLocator('.tpl-OutputFrame');

/** Attempts the actions of a hostile script. */
const SPY = (gateway: string): string => `<p id="found">not run</p>
<script>
const attempts = {
  page: () => parent.document.title,
  token: () => sessionStorage.getItem('tpulab:session-token'),
  cookie: () => document.cookie,
  top: () => { top.location = 'about:blank'; }
};
const found = { origin: self.origin };
for (const [name, attempt] of Object.entries(attempts))
  try { attempt(); found[name] = 'done'; } catch (error) { found[name] = error.name; }
fetch('${gateway}session/').then(() => 'answered', () => 'refused').then(gateway => {
  document.getElementById('found').textContent = JSON.stringify({ ...found, gateway });
});
</script>`;
const NOTHING = JSON.stringify({
  origin: 'null',
  ...{ page: 'SecurityError', token: 'SecurityError', cookie: 'SecurityError', top: 'SecurityError' },
  gateway: 'refused'
});
/** Like Plotly: a library in one output, and a chart that needs it in another. */
const LIBRARY = `'<script>' + '/* library */'.ljust(60_000) + 'window.draw = () => "drawn"; </script>'`;
const CHART = `'<p id="chart" style="height: 321px"></p><script>document.getElementById("chart").textContent = draw()</script>'`;

test('run in a frame that reaches nothing, and only where the notebook is trusted', async ({
  page,
  gateway
}) => {
  const spy = `HTML(${JSON.stringify(SPY(gateway.url))})`;
  await gateway.write(
    'scripts.ipynb',
    notebookText([`from IPython.display import HTML\n${spy}`, `HTML(${LIBRARY})`, `HTML(${CHART})`])
  );
  await open(page, gateway, 'scripts.ipynb');
  await page.getByRole('button', { name: 'Run all' }).click();
  await expect(frame(page, 0).locator('#found')).toHaveText(NOTHING);
  await expect(frame(page, 2).locator('#chart')).toHaveText('drawn');
  await expect(cell(page, 2).locator('.tpl-OutputFrame')).toHaveCSS('height', /^3[2-6]\d(\.\d+)?px$/);
  // Otherwise a library that chooses a colour scheme gets a white frame below the light text of the dark theme.
  await expect(frame(page, 2).locator('html')).not.toHaveCSS('background-color', 'rgba(0, 0, 0, 0)');

  // The same browser recognises these outputs. The file's own trust mark is ignored.
  await expect.poll(() => gateway.read('scripts.ipynb')).toContain('drawn');
  await expect(page.locator('.tpl-TopBar-saved.jp-mod-saved')).toBeVisible();
  const text = await gateway.read('scripts.ipynb');
  expect(text).not.toContain('"trusted"');
  await page.reload();
  await expect(frame(page, 2).locator('#chart')).toHaveText('drawn');

  const foreign = JSON.parse(text.replaceAll('not run', 'by a stranger')) as {
    cells: { metadata: object }[];
  };
  for (const each of foreign.cells) each.metadata = { trusted: true };
  await gateway.write('foreign.ipynb', JSON.stringify(foreign));
  await open(page, gateway, 'foreign.ipynb');
  await expect(cell(page, 0).getByText('by a stranger', { exact: true })).toBeVisible();
  await expect(cell(page, 0).getByText('This output has scripts.')).toBeVisible();
  await expect(cell(page, 0).locator('.tpl-OutputFrame')).toHaveCount(0);
  await cell(page, 0).getByRole('button', { name: 'Trust this notebook…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Trust' }).click();
  await expect(frame(page, 0).locator('#found')).toHaveText(NOTHING);
  await run(page, 2);
  await expect(cell(page, 2).locator('.jp-InputPrompt')).toHaveText(/\[\d+\]:/);
});

/** Properties that a widget's code checks where it runs; the same as for an output. */
const SPY_WIDGET = `
globalThis.__ran = 1;
const found = {};
for (const [name, attempt] of Object.entries({
  page: () => parent.document.title,
  token: () => sessionStorage.length,
  cookie: () => document.cookie
})) try { attempt(); found[name] = 'done'; } catch (error) { found[name] = error.name; }
try { parent.document.title = 'taken'; } catch {}
export default { render({ model, el }) {
  const button = document.createElement('button');
  const show = () => { button.textContent = JSON.stringify({ origin: self.origin, ...found, count: model.get('count') }); };
  button.addEventListener('click', () => { model.set('count', model.get('count') + 1); model.save_changes(); });
  model.on('change:count', show);
  show();
  el.append(button);
} }`;
/** Its code is unavailable. */
const FAR = `class Far(anywidget.AnyWidget):
    _esm = 'import * as d3 from "https://esm.sh/d3@7"; export default { render() {} }'
Far()`;
/** Its code takes longer than anywidget waits, as Plotly's does on a busy computer. */
const SLOW = `class Slow(anywidget.AnyWidget):
    count = traitlets.Int(1).tag(sync=True)
    _esm = '''await new Promise(done => setTimeout(done, 2500));
export default { render({ model, el }) {
  const show = () => { el.textContent = 'slow ' + model.get('count') };
  model.on('change:count', show);
  show();
} }'''
slow = Slow()
slow`;
const BROKEN = `class Broken(anywidget.AnyWidget):
    _esm = 'nothing.here; export default { render() {} }'
Broken()`;
/** Its whole content comes from its kernel, like k3d's code. */
const ASKING = `class Asking(anywidget.AnyWidget):
    _esm = '''export default { render({ model, el }) {
  model.on('msg:custom', () => { el.textContent = 'answered' });
  model.send({});
} }'''
asking = Asking()
asking.on_msg(lambda widget, content, buffers: widget.send({}))
asking`;
const seenBy = (count: number): string =>
  JSON.stringify({
    ...{ origin: 'null', page: 'SecurityError', token: 'SecurityError', cookie: 'SecurityError' },
    count
  });
const WIDGET = `import sys, glob
sys.path += glob.glob(${JSON.stringify(OTHER_PACKAGES)})
import anywidget, ipywidgets, traitlets
class Counter(anywidget.AnyWidget):
    _esm = ${JSON.stringify(SPY_WIDGET)}
    count = traitlets.Int(0).tag(sync=True)
counter = Counter()
ipywidgets.VBox([ipywidgets.IntText(description="beside"), counter])`;

test('code of a widget runs in a frame, and of a strange notebook only once it is trusted', async ({
  page,
  gateway
}) => {
  await page.route('https://esm.sh/**', route => route.abort());
  await gateway.write(
    'widget.ipynb',
    notebookText([
      ...[WIDGET, 'counter.count = 5', 'print(counter.count)'],
      ...[FAR, SLOW, 'slow.count = 2', BROKEN, ASKING]
    ])
  );
  await open(page, gateway, 'widget.ipynb');
  await run(page, 0);
  const button = frame(page, 0).getByRole('button');
  await expect(button).toHaveText(seenBy(0));
  await expect(frame(page, 0).getByLabel('beside')).toBeVisible();
  // From the kernel, and to it.
  await run(page, 1);
  await expect(button).toHaveText(seenBy(5));
  await button.click();
  await run(page, 2);
  await expect(cell(page, 2).locator('.jp-OutputArea')).toContainText('6');
  await run(page, 3);
  await expect(cell(page, 3).locator('.jp-OutputArea')).toContainText('Far object');
  await expect(cell(page, 3)).toContainText('needs the network: https://esm.sh/d3@7');
  await run(page, 4);
  await expect(frame(page, 4).getByText('slow 1')).toBeVisible();
  await run(page, 5);
  await expect(frame(page, 4).getByText('slow 2')).toBeVisible();
  await run(page, 6);
  await expect(cell(page, 6)).toContainText('cannot be shown: [anywidget] nothing is not defined');
  await run(page, 7);
  await expect(frame(page, 7).getByText('answered')).toBeVisible();
  expect(await page.title()).toContain('widget.ipynb');
  await expect.poll(() => gateway.read('widget.ipynb')).toMatch(/"count": ?6/);
  await expect(page.locator('.tpl-TopBar-saved.jp-mod-saved')).toBeVisible();
  await page.reload();
  await expect(button).toHaveText(seenBy(6));

  // The same outputs, with a kernel that has never received them, and foreign code.
  const text = (await gateway.read('widget.ipynb')).replaceAll(/"count": ?6/g, '"count": 33');
  await gateway.write('strange.ipynb', text);
  await open(page, gateway, 'strange.ipynb');
  await expect(cell(page, 0).getByText('This is a widget.')).toBeVisible();
  await run(page, 1);
  await expect(cell(page, 0).locator('iframe')).toHaveCount(0);
  expect(await page.evaluate('globalThis.__ran')).toBeUndefined();
  await cell(page, 0).getByRole('button', { name: 'Trust this notebook…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Trust' }).click();
  await expect(frame(page, 0).getByRole('button')).toHaveText(seenBy(33));
  await expect(cell(page, 7)).toContainText('This widget gets its content from its kernel, which has ended');
  await expect(cell(page, 7).locator('.jp-OutputArea')).toContainText('Asking object');
  await expect(page.getByText('Widgets are not live: run their cells.')).toBeVisible();
  expect(await page.evaluate('globalThis.__ran')).toBeUndefined();
});

test('every output has a view, and files and links of the folder work', async ({ page, gateway }) => {
  const plotly = { data: [{ y: [1, 3, 2] }], layout: { title: { text: 'a chart' } } };
  const vega = {
    data: { values: [{ a: 1 }] },
    mark: 'point',
    encoding: { x: { field: 'a', type: 'quantitative' } }
  };
  const display = (type: string, data: object) =>
    `display({${JSON.stringify(type)}: json.loads(${JSON.stringify(JSON.stringify(data))})}, raw=True)`;
  await gateway.write('next.ipynb', notebookText(['print("next")']));
  await gateway.write('report.html', '<h1>local report</h1>');
  await gateway.write('out.csv', 'a,b');
  await gateway.write('pic.svg', '<svg xmlns="http://www.w3.org/2000/svg" width="50" height="30"></svg>');
  await gateway.write(
    'views.ipynb',
    notebookText([
      `import json\nfrom IPython.display import HTML\n${display('application/vnd.plotly.v1+json', plotly)}`,
      display('application/vnd.vegalite.v5+json', vega),
      display('application/json', { deep: [1, 2] }),
      display('application/x-nobody+json', { a: 1 }),
      `HTML("<p class='mathjax_ignore'>from $5 to $10</p><p>set $x^2$</p>")`,
      `HTML("<img src='pic.svg' alt='in the page'><a href='out.csv'>table</a>")`,
      `HTML("<img src='pic.svg' alt='in the frame'><script>document.getElementById('late').textContent = 'found'</script><p id='late'></p>" +
        "<a href='next.ipynb'>next</a> <a download='x.csv' href='data:text/csv,a'>save</a><iframe src='report.html'></iframe><iframe src='https://example.com/'></iframe>")`,
      // Broken ones: the next type is shown.
      `display({"application/vnd.vegalite.v5+json": {}, "text/plain": "text of a chart"}, raw=True)`,
      `display({"application/vnd.jupyter.widget-view+json": "x", "text/plain": "text of a widget"}, raw=True)`,
      `HTML("<iframe src='data:text/html,<h1>in%20the%20address</h1>'></iframe>")`
    ])
  );
  await open(page, gateway, 'views.ipynb');
  await page.getByRole('button', { name: 'Run all' }).click();
  await expect(frame(page, 0).getByText('a chart')).toBeVisible();
  await expect(frame(page, 1).locator('.vega-embed canvas, .vega-embed svg').first()).toBeVisible();
  await expect(cell(page, 2).locator('.tpl-DataOutput')).toContainText('deep');
  await expect(cell(page, 3)).toContainText('No view for application/x-nobody+json (7 B)');
  await expect(cell(page, 4)).toContainText('from $5 to $10');
  await expect(cell(page, 4).locator('mjx-container')).toHaveCount(1);
  const width = (image: HTMLImageElement): number => image.naturalWidth;
  await expect.poll(() => cell(page, 5).getByAltText('in the page').evaluate(width)).toBe(50);
  await expect.poll(() => frame(page, 6).getByAltText('in the frame').evaluate(width)).toBe(50);
  await expect(frame(page, 6).locator('#late')).toHaveText('found');
  await expect(frame(page, 6).locator('iframe').contentFrame().getByText('local report')).toBeVisible();
  await expect(
    frame(page, 6).getByText('The session page shows no other sites: https://example.com/')
  ).toBeVisible();
  await expect(cell(page, 7)).toContainText('text of a chart');
  await expect(cell(page, 7)).toContainText('This chart cannot be drawn: Error: Invalid specification');
  await expect(cell(page, 8).locator('.jp-OutputArea')).toContainText('text of a widget');
  const inAddress = frame(page, 9).locator('iframe').contentFrame();
  await expect(inAddress.getByText('in the address')).toBeVisible();
  // By keyboard: frames that draw keep the page from becoming stable, for which a pointer action waits.
  const downloaded = async (link: Locator): Promise<string> => {
    const [download] = await Promise.all([page.waitForEvent('download'), link.press('Enter')]);
    return download.suggestedFilename();
  };
  expect(await downloaded(cell(page, 5).getByRole('link', { name: 'table' }))).toBe('out.csv');
  expect(await downloaded(frame(page, 6).getByRole('link', { name: 'save' }))).toBe('x.csv');
  await frame(page, 6).getByRole('link', { name: 'next' }).press('Enter');
  await expect(page).toHaveURL(/\/session\/next\.ipynb$/);
  await expect(page.getByRole('button', { name: /^Runtime: .* connected, / })).toBeVisible();
  // Not accessible to any script: the stored key works only with a cookie that scripts cannot read.
  const found = await page.evaluate(() =>
    JSON.stringify([
      Object.entries(sessionStorage),
      Object.entries(localStorage),
      location.href,
      document.cookie
    ])
  );
  expect(found).not.toContain(gateway.token);
  const [, key = ''] = /(page-[0-9a-f]{64})/.exec(found) ?? [];
  const headers = { authorization: `token ${key}` };
  expect((await fetch(new URL('api/kernels', gateway.url), { headers })).status).toBe(403);
});

/** A gateway with a kernel of an environment with other people's packages: `others`. */
async function withOthers(work: (gateway: SessionGateway) => Promise<void>): Promise<void> {
  const jupyter = await mkdtemp(join(tmpdir(), 'tpulab-jupyter-'));
  await mkdir(join(jupyter, 'kernels', 'others'), { recursive: true });
  await writeFile(
    join(jupyter, 'kernels', 'others', 'kernel.json'),
    JSON.stringify({
      argv: [OTHERS_PYTHON, '-m', 'ipykernel_launcher', '-f', '{connection_file}'],
      display_name: 'Others',
      language: 'python'
    })
  );
  const gateway = await SessionGateway.start({ JUPYTER_PATH: jupyter });
  try {
    await work(gateway);
  } finally {
    await gateway.stop();
    await rm(jupyter, { recursive: true });
  }
}

/** Closes its figures in the second run. */
const CLOSES_LATER = `print("all", "was run")
if "is_again" in globals(): plt.close("all")
is_again = True`;

test("packages of other people are shown, even after a reload, with the front ends of the kernel's environment", async ({
  page
}) => {
  // `npm run test:outputs` has more of them, compared with JupyterLab.
  const quick = PACKAGES.filter(({ isQuick }) => isQuick);
  await withOthers(async gateway => {
    await gateway.write(
      'others.ipynb',
      notebookText([...quick.map(({ code }) => code), CLOSES_LATER], 'others')
    );
    await open(page, gateway, 'others.ipynb');
    await page.getByRole('button', { name: 'Run all' }).click();
    await expect(page.getByText('all was run')).toBeVisible();
    const shown = async (): Promise<string[]> => {
      const found: string[] = [];
      for (const [at, each] of quick.entries()) if (await isShown(page, at, each)) found.push(each.name);
      return found;
    };
    await expect.poll(shown).toEqual(quick.map(({ name }) => name));
    await expect(page.locator('.tpl-TopBar-saved.jp-mod-saved')).toBeVisible();
    await page.reload();
    await expect.poll(shown).toEqual(quick.map(({ name }) => name));
    await expect(page.getByText('Error displaying widget')).toHaveCount(0);
    // A closed figure leaves its picture, as in JupyterLab.
    await run(page, quick.length);
    const figure = cell(
      page,
      quick.findIndex(({ name }) => name === 'ipympl')
    );
    await expect(figure.locator('.tpl-OutputFrame')).toHaveCount(0);
    await expect(figure.locator('.jp-OutputArea-output img')).toBeVisible();
  });
});

test('ordinary outputs are shown, and a running cell continues after a reload', async ({ page }) => {
  await withOthers(async gateway => {
    await gateway.write('ordinary.ipynb', ordinaryNotebook('others'));
    await open(page, gateway, 'ordinary.ipynb');
    await page.getByRole('button', { name: 'Run all' }).click();
    await checkOrdinary(page);
  });
});

test('pictures from https are shown alike in Markdown, outputs and frames', async ({ page, gateway }) => {
  await serveRemotePicture(page);
  await gateway.write('far.ipynb', remotePictures('tpulab-jax'));
  await open(page, gateway, 'far.ipynb');
  await page.getByRole('button', { name: 'Run all' }).click();
  await checkRemotePictures(page, frame(page, 1));
});
