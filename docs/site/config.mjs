import { defineConfig } from 'vitepress';
import { addressOf, CONTENTS } from './contents.mjs';

/** The server replaces this by the address under which it shows the pages. */
const BASE = '/tpulab-docs-base/';

export default defineConfig({
  title: 'TPULab',
  description: 'Jupyter for JAX and PyTorch/XLA',
  base: BASE,
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  // The server answers an address with the file of that name.
  cleanUrls: false,
  metaChunk: true,
  lastUpdated: false,
  vite: { build: { chunkSizeWarningLimit: 4_000 } },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Tutorials', link: '/tutorials/00-getting-started' },
      { text: 'Reference', link: '/reference/command-line' },
      { text: 'Status', link: '/status' }
    ],
    sidebar: CONTENTS.map(({ group, pages }) => ({
      text: group,
      collapsed: true,
      items: pages.map(({ title, source }) => ({ text: title, link: `/${addressOf(source)}` }))
    }))
  }
});
