/** Nothing to register: `react-components.tsx` has plain elements. */
const nothing = (): undefined => undefined;
export const jpButton = nothing;
export const jpToolbar = nothing;
export const addJupyterLabThemeChangeListener = nothing;

export function provideJupyterDesignSystem(): { register: () => void } {
  return { register: nothing };
}
