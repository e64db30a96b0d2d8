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
  'https://netdna.bootstrapcdn.com',
  'https://maxcdn.bootstrapcdn.com'
].join(' ');

/**
 * `unsafe-eval` is for chart libraries that compile their expressions. Nothing goes to the gateway: `'self'` is in no rule.
 * Pictures come from anywhere, as the tiles of a map do.
 */
export const FRAME_POLICY = [
  'sandbox allow-scripts',
  "default-src 'none'",
  `script-src 'unsafe-inline' 'unsafe-eval' blob: ${LIBRARIES}`,
  `style-src 'unsafe-inline' ${LIBRARIES}`,
  `font-src data: ${LIBRARIES}`,
  'img-src data: blob: https:',
  'media-src data: blob:',
  `connect-src data: blob: ${LIBRARIES}`,
  'worker-src blob:',
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'self'"
].join('; ');

/** Written anew for each output, so that scripts run in their order, and each after what it loads. */
export const FRAME = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Output</title></head>
<body><script>
addEventListener('message', ({ source, data }) => {
  if (source !== parent || typeof data?.html !== 'string') return;
  document.open();
  document.write('<!doctype html>' + data.html);
  document.close();
  const root = document.documentElement;
  const tell = () => parent.postMessage({ tpulabFrameHeight: Math.ceil(root.getBoundingClientRect().height) }, '*');
  new ResizeObserver(tell).observe(root);
  tell();
}, { once: true });
</script></body>
</html>
`;
