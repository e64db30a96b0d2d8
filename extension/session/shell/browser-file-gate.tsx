/** Shown before a file of the user's own computer: the browser has to allow access, after a click when the page was reloaded. */
import { type JSX, type ReactNode, useEffect, useState } from 'react';
import { BrowserDrive } from '../files/browser-drive.js';
import { type BrowserFile, storedFile, mayWrite } from '../files/browser-files.js';
import type { SessionPage } from '../page/session-page.js';
import { Button, Plain } from './plain.js';
import { trans } from '../text.js';

interface BrowserFileGateProps {
  /** `browser:ID/NAME` */
  readonly path: string;
  readonly page: SessionPage;
  readonly children: ReactNode;
}

type State =
  | { readonly kind: 'looking' | 'gone' | 'open' }
  | { readonly kind: 'asks'; readonly file: BrowserFile };

export default function BrowserFileGate({ path, page, children }: BrowserFileGateProps): JSX.Element {
  const [state, setState] = useState<State>({ kind: 'looking' });
  const open = async (file: BrowserFile, mayAsk: boolean): Promise<void> => {
    if (!(await mayWrite(file.handle, mayAsk))) {
      setState({ kind: 'asks', file });
      return;
    }
    const drive = new BrowserDrive(file.handle, page.drive);
    page.managers.contents.addDrive(drive);
    page.store = drive;
    setState({ kind: 'open' });
  };
  useEffect(() => {
    const id = /^browser:([^/]+)\//.exec(path)?.[1] ?? '';
    void storedFile(id)
      .catch(() => null)
      .then(file => (file ? open(file, false) : setState({ kind: 'gone' })));
    // eslint-disable-next-line react-hooks/exhaustive-deps -- the file of this address, once
  }, [path]);
  switch (state.kind) {
    case 'looking':
      return <Plain>{trans.__('Opening the file…')}</Plain>;
    case 'gone':
      return (
        <Plain>
          <p role="alert">
            {trans.__(
              'This browser does not know the file any more. Open it again from the list of notebooks.'
            )}
          </p>
          <a className="tpl-Button" href={document.baseURI}>
            {trans.__('All notebooks')}
          </a>
        </Plain>
      );
    case 'asks':
      return (
        <Plain>
          <p>{trans.__('The browser asks before this page reads and saves %1.', state.file.handle.name)}</p>
          <Button kind="primary" onClick={() => void open(state.file, true)}>
            {trans.__('Open %1', state.file.handle.name)}
          </Button>
        </Plain>
      );
    case 'open':
      return <>{children}</>;
  }
}
