import './environment.js';
import './style/index.js';
import { createRoot } from 'react-dom/client';
import { readAddress } from './page/address.js';
import { Theme } from './page/theme.js';
import { pageStorage } from '../src/platform/page-storage.js';
import { Start } from './shell/start.js';

// Chromium gives up requests that wait for a connection when the network changes (a Wi-Fi, a VPN), and does not ask again.
for (const link of document.querySelectorAll<HTMLLinkElement>('link[rel=stylesheet]')) {
  if (!isLoaded(link)) link.replaceWith(link.cloneNode());
}

const host = document.getElementById('session');
if (host) {
  const address = readAddress(window);
  const theme = new Theme(pageStorage());
  createRoot(host).render(<Start address={address} theme={theme} />);
}

/** A style sheet of the page's own origin can be read, unless it did not come. */
function isLoaded({ sheet }: HTMLLinkElement): boolean {
  try {
    return sheet !== null && sheet.cssRules.length > 0;
  } catch {
    return false;
  }
}
