/** The notebook, a Lumino widget, in React's tree. */
import type { NotebookPanel } from '@jupyterlab/notebook';
import { followLongOutput } from '../notebook/long-output.js';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { type JSX, useLayoutEffect, useRef } from 'react';
import { trans } from '../text.js';

export function NotebookHost({ panel }: { readonly panel: NotebookPanel }): JSX.Element {
  const host = useRef<HTMLElement>(null);
  // Before React takes the node away: a widget must be in the document when it is detached.
  useLayoutEffect(() => {
    const node = host.current;
    if (!node) {
      return;
    }
    Widget.attach(panel, node);
    const observer = new ResizeObserver(() =>
      MessageLoop.sendMessage(panel, Widget.ResizeMessage.UnknownSize)
    );
    observer.observe(node);
    const gone = new AbortController();
    followLongOutput(panel.node, gone.signal);
    return () => {
      gone.abort();
      observer.disconnect();
      if (panel.isAttached) {
        Widget.detach(panel);
      }
    };
  }, [panel]);
  return <main className="tpl-Notebook" ref={host} aria-label={trans.__('Notebook')} />;
}
