/** Replaces `@sinclair/typebox/value`. */
import { Check } from '../../../node_modules/@sinclair/typebox/build/esm/value/check/index.mjs';

export const Value = { Check };
