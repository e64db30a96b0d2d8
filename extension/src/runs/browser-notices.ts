/** The browser's own notifications of runs, for a user who looks at another tab or program. Off until the user allows them. */

/** Shown only while the page is hidden: else the page says it itself. */
export function showInBrowser(text: string): void {
  if (!document.hidden || !('Notification' in window) || window.Notification.permission !== 'granted') return;
  try {
    const shown = new window.Notification('TPULab', { body: text, tag: text });
    shown.onclick = () => window.focus();
  } catch {
    // Android has them for service workers only.
  }
}

/** Asks the user, on a click. False: the browser has none, or they are not allowed. */
export async function allowInBrowser(): Promise<boolean> {
  return 'Notification' in window && (await window.Notification.requestPermission()) === 'granted';
}
