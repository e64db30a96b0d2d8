/**
 * `/session/_frame`: the empty document in which the session page shows outputs with scripts. It is in a frame of an opaque origin,
 * so that its scripts reach neither the page nor its token, storage or cookies; the page sends it what to show, once for each load, and
 * is told its height. See docs/decisions/0015-outputs-in-frames.md.
 */

/** From where the libraries that draw charts and maps load their scripts, styles, fonts and shapes. */
const LIBRARIES = [
  'https://cdn.plot.ly',
  'https://cdn.jsdelivr.net',
  'https://cdnjs.cloudflare.com',
  'https://unpkg.com',
  'https://cdn.bokeh.org',
  'https://cdn.holoviz.org',
  'https://code.jquery.com',
  'https://esm.sh',
  'https://netdna.bootstrapcdn.com',
  'https://maxcdn.bootstrapcdn.com'
].join(' ');

/**
 * `unsafe-eval` is for chart libraries that compile their expressions. Nothing goes to the gateway: `'self'` is in no rule.
 * Pictures, sound and film come from any https address, as in the page itself: the tiles of a map do.
 */
export const FRAME_POLICY = [
  'sandbox allow-scripts',
  "default-src 'none'",
  `script-src 'unsafe-inline' 'unsafe-eval' blob: ${LIBRARIES}`,
  `style-src 'unsafe-inline' ${LIBRARIES}`,
  `font-src data: ${LIBRARIES}`,
  'img-src data: blob: https:',
  'media-src data: blob: https:',
  `connect-src data: blob: ${LIBRARIES}`,
  'worker-src blob:',
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'self'"
].join('; ');

/** Says that it is there, and runs the script that the page sends, which makes its document of what is sent with it. */
export const FRAME = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Output</title></head>
<body><script>
addEventListener('message', ({ source, data, ports }) => {
  if (source !== parent || typeof data?.boot !== 'string') return;
  globalThis.tpulabFrame = { content: data.content, port: ports[0] };
  document.body.replaceChildren();
  const script = document.createElement('script');
  script.textContent = data.boot;
  document.head.append(script);
}, { once: true });
parent.postMessage({ tpulabFrame: 'ready' }, '*');
</script></body>
</html>
`;
