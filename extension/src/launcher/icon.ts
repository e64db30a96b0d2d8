/** Icons for the cards of kernelspecs, from their logos. */
import { LabIcon, notebookIcon } from '@jupyterlab/ui-components';

const icons = new Map<string, LabIcon>();

/**
 * The logo as an icon; the notebook icon while there is none. The logo is drawn as an image inside the icon, because
 * an icon's own markup becomes part of the page and a kernelspec's file must not.
 */
export function specIcon(kernelName: string, logoUrl: string | undefined): LabIcon {
  if (logoUrl === undefined || !/^data:image\/[\w.+-]+;base64,[\w+/=]*$/.test(logoUrl)) {
    return notebookIcon;
  }
  const key = `${kernelName} ${logoUrl}`;
  let icon = icons.get(key);
  if (icon === undefined) {
    const svgstr = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><image href="${logoUrl}" width="64" height="64"/></svg>`;
    icon = new LabIcon({ name: `tpulab:kernelspec-${icons.size}`, svgstr });
    icons.set(key, icon);
  }
  return icon;
}
