import './environment.js';
import '../../style/session.js';
import { createRoot } from 'react-dom/client';
import { readAddress } from './page/address.js';
import { Theme } from './page/theme.js';
import { pageStorage } from '../src/platform/page-storage.js';
import { Start } from './shell/start.js';

const host = document.getElementById('session');
if (host) {
  const address = readAddress(window);
  const theme = new Theme(pageStorage());
  createRoot(host).render(<Start address={address} theme={theme} />);
}
