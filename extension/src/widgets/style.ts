/** The look of the widgets: JupyterLab's variables where the page has them, else colours of our own for light and dark. */

const CSS = `
.tpulab{--jp-tpulab-input:#d98018;--jp-tpulab-host:#8a95a5;--jp-tpulab-compile:#8e5bd6;--jp-tpulab-device:#1b8f61;--jp-tpulab-gap:#cfd4dc;
--t1:var(--jp-ui-font-color1,#1f2328);--l1:var(--jp-layout-color1,#fff);--t2:color-mix(in srgb,var(--t1) 72%,var(--l1));--l2:var(--jp-layout-color2,#f3f4f6);
--b:var(--jp-border-color1,#d0d4da);--brand:var(--jp-brand-color1,#1976d2);--code:var(--jp-code-font-family,ui-monospace,Menlo,monospace);
font:13px/1.4 var(--jp-ui-font-family,system-ui,sans-serif);color:var(--t1);background:var(--l1);border:1px solid var(--b);padding:10px;max-width:680px;box-sizing:border-box}
[data-jp-theme-light=false] .tpulab{--jp-tpulab-input:#f5b65c;--jp-tpulab-host:#8b96a6;--jp-tpulab-compile:#b28bea;--jp-tpulab-device:#4cc38f;--jp-tpulab-gap:#565c66}
@media (prefers-color-scheme:dark){body:not([data-jp-theme-light]) .tpulab{--t1:#e8eaed;--l1:#1b1d21;--l2:#25282d;--b:#454a52;--brand:#64b5f6;
--jp-tpulab-input:#f5b65c;--jp-tpulab-host:#8b96a6;--jp-tpulab-compile:#b28bea;--jp-tpulab-device:#4cc38f;--jp-tpulab-gap:#565c66}}
.tpulab *{box-sizing:border-box}
.tpulab-row{display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 10px;align-items:baseline}
.tpulab-num{font-family:var(--code);font-variant-numeric:tabular-nums}
.tpulab-quiet{color:var(--t2)}
.tpulab-chips{display:grid;grid-template-columns:repeat(auto-fill,minmax(58px,1fr));gap:6px;margin:8px 0;padding:0;list-style:none}
.tpulab-many{grid-template-columns:repeat(auto-fill,minmax(24px,1fr));gap:3px;font-size:10px}
.tpulab-chip{border:1px solid var(--b);border-radius:3px;padding:4px 6px;margin:0}
.tpulab-many .tpulab-chip{padding:1px 3px}
.tpulab-bar{display:block;height:5px;margin-top:4px;border-radius:2px;background:var(--jp-tpulab-gap);overflow:hidden;forced-color-adjust:none}
.tpulab-used{display:block;height:100%;background:var(--brand)}
.tpulab-duty{background:var(--jp-tpulab-device)}
.tpulab-split{display:flex;height:18px;margin:8px 0 6px;border-radius:2px;overflow:hidden;background:var(--l2);forced-color-adjust:none}
.tpulab-split>span+span{box-shadow:inset 1px 0 var(--l1)}
.tpulab-legend{display:flex;flex-wrap:wrap;gap:2px 14px;margin:0;padding:0;list-style:none;font-size:12px}
.tpulab-key{display:inline-block;width:8px;height:8px;border-radius:2px;margin-right:4px;forced-color-adjust:none}
.tpulab-say{background:var(--l2);border-left:3px solid var(--b);padding:6px 8px;margin:10px 0}
.tpulab-say.tpulab-act{border-left-color:var(--jp-warn-color0,#e65100)}
.tpulab canvas{display:block;width:100%;height:118px}
.tpulab-buttons{display:flex;flex-wrap:wrap;gap:6px;margin:8px 0}
.tpulab button{font:inherit;color:var(--t1);background:var(--l1);border:1px solid var(--b);border-radius:2px;padding:3px 10px;cursor:pointer}
.tpulab button:hover{background:var(--l2)}
.tpulab button:disabled{opacity:.6;cursor:default}
.tpulab :focus-visible{outline:2px solid var(--jp-focus-outline-color,var(--brand));outline-offset:1px}
.tpulab-hyper{margin-top:8px}
.tpulab-inputs{display:flex;gap:8px;align-items:center}
.tpulab-inputs input[type=range]{flex:1 1 140px;min-width:0;accent-color:var(--brand)}
.tpulab input[type=text],.tpulab select{font:inherit;color:var(--t1);background:var(--l1);border:1px solid var(--b);border-radius:2px;padding:2px 6px}
.tpulab-inputs input[type=text]{width:96px;text-align:end;font-family:var(--code)}
.tpulab progress{display:block;width:100%;height:6px;accent-color:var(--brand)}
.tpulab-fail{color:var(--jp-error-color1,#b3261e)}
.tpulab svg{display:block;width:100%;height:72px}
.tpulab-line{fill:none;stroke:var(--brand);stroke-width:1.5;vector-effect:non-scaling-stroke}
`;

/** Puts the sheet into the document or shadow tree of an element, once. */
export function dress(el: HTMLElement): void {
  const root = el.getRootNode();
  const place = root instanceof ShadowRoot ? root : document.head;
  if (!place.querySelector('style[data-tpulab]')) {
    const sheet = document.createElement('style');
    sheet.dataset['tpulab'] = '';
    sheet.textContent = CSS;
    place.append(sheet);
  }
  el.classList.add('tpulab');
}
