import { describe, expect, it } from 'vitest';
import { drawnTogether, frameHtml, hasScripts, libraryOf, librariesOf } from './scripted-html.js';

const html = (text: string | string[]) => ({ 'text/html': text });

describe('an output', () => {
  it.each([
    '<div></div><script>draw()</script>',
    '<SCRIPT type="module">import "x"</SCRIPT>',
    '<iframe srcdoc="&lt;script>"></iframe>',
    '<button\n onclick = "go()">Go</button>',
    '<img/onerror=go()>'
  ])('has scripts: %s', text => expect(hasScripts(html(text))).toBe(true));

  it.each(['<table><tr><td>set on = 1</td></tr></table>', '<p>&lt;script&gt;</p>', '<style>.a {}</style>'])(
    'has no script: %s',
    text => expect(hasScripts(html(text))).toBe(false)
  );

  it('has scripts if there is one beside its HTML, or alone', () => {
    expect(hasScripts({ ...html('<div></div>'), 'application/javascript': 'draw()' })).toBe(true);
    expect(hasScripts({ 'application/javascript': ['a()', '\nb()'] })).toBe(true);
    expect(hasScripts({ 'text/plain': '<script>' })).toBe(false);
  });

  it('is searched in linear time, whatever its author', () => {
    expect(hasScripts(html('<a '.repeat(300_000)))).toBe(false);
    expect(libraryOf(html('<script>'.repeat(20_000)))).toBeNull();
  });
});

describe('a library', () => {
  const plotly = `<script>window.PlotlyConfig = {};</script>\n<script>${'x'.repeat(60_000)}</script>`;

  it('is a long script, or one that loads another, with nothing beside it', () => {
    expect(libraryOf(html(plotly))).toBe(plotly);
    expect(libraryOf(html('<script type="module">import "https://cdn.plot.ly/x"</script>'))).not.toBeNull();
    expect(libraryOf(html('<script src="https://cdn.plot.ly/x.js"></script><!-- plotly -->'))).not.toBeNull();
    // Next to visible content, the long script alone (itables reports that it was loaded).
    expect(libraryOf(html(`${plotly}<div id="chart"></div><script>draw()</script>`))).toBe(
      `<script>${'x'.repeat(60_000)}</script>`
    );
    expect(libraryOf(html('<script>document.body.append("drawn")</script>'))).toBeNull();
  });

  it('is the script that Bokeh marks as one', () => {
    const load = { ...html('<span>Loading</span>'), 'application/javascript': 'root.Bokeh = "</script>"' };
    expect(libraryOf({ ...load, 'application/vnd.bokehjs_load.v0+json': '' })).toBe(
      '<script>root.Bokeh = "<\\/script>"</script>'
    );
    expect(libraryOf(load)).toBeNull();
  });

  it('is given to all other outputs, in whatever order cells ran, once, and only if it is trusted', () => {
    const last = { trusted: true, data: html('<div></div>') };
    const outputs = [
      { trusted: true, data: html(plotly) },
      { trusted: true, data: html(plotly) },
      { trusted: false, data: html(`<script>${'y'.repeat(60_000)}</script>`) },
      last,
      { trusted: true, data: html(`<script>${'z'.repeat(60_000)}</script>`) }
    ];
    expect(librariesOf(outputs, last)).toEqual([plotly, `<script>${'z'.repeat(60_000)}</script>`]);
  });
});

it('a script of Bokeh draws into the HTML of the output before it', () => {
  const script = { 'application/javascript': 'draw()', 'application/vnd.bokehjs_exec.v0+json': '' };
  expect(drawnTogether(script, html('<div id="a"></div>'))).toEqual({
    ...script,
    ...html('<div id="a"></div>')
  });
  expect(drawnTogether(script, undefined)).toEqual(script);
  expect(drawnTogether(html('<p>'), html('<div>'))).toEqual(html('<p>'));
});

it('a frame gets the HTML, and the script beside it after its element', () => {
  const text = frameHtml({ ...html('<div id="root"></div>'), 'application/javascript': 'root("<!--")' });
  const parts = ['<div id="root">', 'var element', 'root("<\\!--")'];
  const at = parts.map(part => text.indexOf(part));
  expect(at).toEqual([...at].sort((a, b) => a - b));
  expect(at).not.toContain(-1);
});
