/** Common parts of all documentation pictures: real fonts, and a mark where machines or devices are simulated. */
import type { Locator, Page } from '@playwright/test';
import { execFileSync } from 'node:child_process';

/** Fails without fonts with real weights: the browser would draw bold text twice, as no user sees it. */
export function requireFonts(): void {
  const listed = execFileSync('fc-list', [':', 'family'], { encoding: 'utf8' });
  for (const family of ['Inter', 'JetBrains Mono'])
    if (!listed.includes(family))
      throw new Error(
        `The font ${family} is missing (Debian: apt install fonts-inter fonts-jetbrains-mono).`
      );
}

/** The fonts that the design names, instead of whatever the machine has for `sans-serif`. */
export async function useFonts(page: Page): Promise<void> {
  await page.addStyleTag({
    content: `:root { --jp-ui-font-family: Inter, sans-serif !important; --jp-content-font-family: Inter, sans-serif !important;
      --jp-code-font-family: 'JetBrains Mono', monospace !important; }
      body { font-family: Inter, sans-serif; }`
  });
}

/** A line above the shown content, in the picture itself. */
export async function markSimulated(part: Locator, words: string): Promise<void> {
  await part.evaluate((element, text) => {
    const note = document.createElement('p');
    note.textContent = text;
    note.style.cssText =
      'flex: none; margin: 0; padding: 4px 12px; font-weight: 600; background: #fdd663; color: #202124;';
    element.prepend(note);
  }, words);
}
