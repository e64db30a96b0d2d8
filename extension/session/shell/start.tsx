/** From the address to a page: asks for a token if none is given, then for a notebook if none is named. */
import { type FormEvent, type JSX, lazy, Suspense, useEffect, useState } from 'react';
import { AccessError, enter, isStorable } from '../page/access.js';
import { forgetToken, isBrowserFile, keepToken, type PageAddress } from '../page/address.js';
import { SessionPage } from '../page/session-page.js';
import type { Theme } from '../page/theme.js';
import { App } from './app.js';
import { Button, Plain } from './plain.js';
import { Marked } from '../../src/ui/marked-view.js';
import { fromBackticks } from '../../src/text/marked.js';
import { trans } from '../text.js';

/** Needed only without a notebook. */
const Home = lazy(() => import('./home.js'));
const TextFileView = lazy(() => import('./text-file.js'));
const Runs = lazy(() => import('./runs.js'));
/** Contains the reader of browser files, which most users never need. */
const BrowserFileGate = lazy(() => import('./browser-file-gate.js'));

interface StartProps {
  readonly address: PageAddress;
  readonly theme: Theme;
}

type State =
  | { readonly kind: 'asking'; readonly token: string }
  | { readonly kind: 'no-token'; readonly why: string | null }
  | { readonly kind: 'unreachable'; readonly token: string; readonly why: string }
  | { readonly kind: 'open'; readonly page: SessionPage };

export function Start({ address, theme }: StartProps): JSX.Element {
  const [state, setState] = useState<State>(() =>
    address.token === null ? { kind: 'no-token', why: null } : { kind: 'asking', token: address.token }
  );
  const offered = state.kind === 'asking' ? state.token : null;
  useEffect(() => {
    if (offered === null) return;
    let isOver = false;
    const open = ({ access, key }: Awaited<ReturnType<typeof enter>>): void => {
      if (!isOver) {
        if (isStorable(key)) keepToken(window, key);
        else forgetToken(window);
        setState({ kind: 'open', page: new SessionPage(address.gateway, key, access) });
      }
    };
    enter(address.gateway, offered).then(open, (error: unknown) => {
      if (isOver) return;
      const isRefused = error instanceof AccessError && error.kind === 'refused';
      const why = error instanceof Error ? error.message : String(error);
      if (isRefused) forgetToken(window);
      setState(isRefused ? { kind: 'no-token', why } : { kind: 'unreachable', token: offered, why });
    });
    return () => {
      isOver = true;
    };
  }, [offered, address.gateway]);
  switch (state.kind) {
    case 'asking':
      return <Plain>{trans.__('Connecting…')}</Plain>;
    case 'unreachable':
      return (
        <Plain>
          <p role="alert">{state.why}</p>
          <Button kind="primary" onClick={() => setState({ kind: 'asking', token: state.token })}>
            {trans.__('Try again')}
          </Button>
        </Plain>
      );
    case 'no-token':
      return <TokenForm why={state.why} onToken={token => setState({ kind: 'asking', token })} />;
    case 'open':
      return address.notebook === null ? (
        <Suspense fallback={<Plain>{trans.__('Connecting…')}</Plain>}>
          {address.runs ? <Runs page={state.page} /> : <Home page={state.page} />}
        </Suspense>
      ) : isBrowserFile(address.notebook) ? (
        <Suspense fallback={<Plain>{trans.__('Opening the file…')}</Plain>}>
          <BrowserFileGate path={address.notebook} page={state.page}>
            <App page={state.page} theme={theme} notebook={address.notebook} />
          </BrowserFileGate>
        </Suspense>
      ) : /\.ipynb$/i.test(address.notebook) ? (
        <App page={state.page} theme={theme} notebook={address.notebook} />
      ) : (
        <Suspense fallback={<Plain>{trans.__('Opening the file…')}</Plain>}>
          <TextFileView page={state.page} path={address.notebook} />
        </Suspense>
      );
  }
}

function TokenForm({
  why,
  onToken
}: {
  readonly why: string | null;
  readonly onToken: (token: string) => void;
}): JSX.Element {
  const [token, setToken] = useState('');
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (token.trim() !== '') onToken(token.trim());
  };
  return (
    <Plain>
      <form className="tpl-TokenForm" onSubmit={submit}>
        <h1>{trans.__('Open this session')}</h1>
        {why === null ? null : <p role="alert">{why}</p>}
        <p>
          <Marked
            pieces={fromBackticks(
              trans.__(
                "Run `tpulab session` on the server's machine: it opens this page with its token. Or paste a token here."
              )
            )}
          />
        </p>
        <label>
          {trans.__('Token')}
          <input
            type="password"
            autoComplete="off"
            value={token}
            onChange={event => setToken(event.currentTarget.value)}
          />
        </label>
        <button type="submit" className="tpl-Button jp-mod-primary">
          {trans.__('Open')}
        </button>
      </form>
    </Plain>
  );
}
