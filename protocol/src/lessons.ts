/** The notebooks that come with the bridge. */
import { type Static, Type } from '@sinclair/typebox';

/** Answer of `POST /bridge/v1/examples` and of `tpulab examples FOLDER --json`. */
export const LessonsCopied = Type.Object({
  folder: Type.String({
    description: 'relative to the root folder of the gateway; of the command: absolute'
  }),
  copied: Type.Array(Type.String(), { description: 'names of notebooks' }),
  kept: Type.Array(Type.String(), { description: 'those that were there already, and are as they were' })
});
export type LessonsCopied = Static<typeof LessonsCopied>;
