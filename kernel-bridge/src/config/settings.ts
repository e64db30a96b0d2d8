/**
 * Every setting of `tpulab serve`: its name in a configuration file, its flag, its variable, what it may be and what it is
 * when nobody says. Where Jupyter has the setting it has Jupyter's name. docs/configuration.md lists the same (spec).
 */
import { ACCESS_SETTINGS } from './access-settings.js';
import { DEVICE_SETTINGS } from './device-settings.js';
import { JOURNAL_SETTINGS } from './journal-settings.js';
import { KERNEL_SETTINGS } from './kernel-settings.js';
import { LIMIT_SETTINGS } from './limit-settings.js';
import type { SettingKey, SettingTable } from './setting.js';

export type { Setting, SettingKey, Settings } from './setting.js';

/** In the order in which the documentation has them. */
export const SETTINGS: SettingTable = {
  ...ACCESS_SETTINGS,
  ...KERNEL_SETTINGS,
  ...LIMIT_SETTINGS,
  ...JOURNAL_SETTINGS,
  ...DEVICE_SETTINGS
};

export const SETTING_KEYS = Object.keys(SETTINGS) as SettingKey[];
