/** The settings of the panel, from the setting registry: missing or invalid values are replaced by defaults. */
import { DEFAULT_SETTINGS, type PanelSettings, SECTIONS } from './state.js';

const HISTORIES = ['minutes', 'hours', 'days', 'off'] as const;

export function settingsFrom(composite: Readonly<Record<string, unknown>>): PanelSettings {
  const number = (name: 'stepsShown' | 'drawsPerSecond'): number => {
    const value = composite[name];
    return typeof value === 'number' ? value : DEFAULT_SETTINGS[name];
  };
  const sections = composite['sections'];
  const isShown = (section: string): boolean =>
    typeof sections !== 'object' ||
    sections === null ||
    (sections as Readonly<Record<string, unknown>>)[section] !== false;
  return {
    stepsShown: number('stepsShown'),
    drawsPerSecond: number('drawsPerSecond'),
    lineNotes: composite['lineNotes'] !== false,
    history: HISTORIES.find(one => one === composite['history']) ?? DEFAULT_SETTINGS.history,
    sections: SECTIONS.filter(isShown)
  };
}
