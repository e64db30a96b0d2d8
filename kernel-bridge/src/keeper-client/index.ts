/** What the gateway uses of the keeper. */
export { type AdoptOptions, attachOrAdopt } from './adopt.js';
export { attachKeeper, type AttachOptions } from './attach.js';
export type * from '../keeper-protocol/contract.js';
export { KeeperClient } from './client.js';
export {
  type GoneKeeper,
  KeeperError,
  type KeeperErrorCode,
  KeeperGoneError
} from '../keeper-protocol/keeper-error.js';
export { SpareKeeper } from './spare-keeper.js';
export { type KeeperDirs, startKeeper, type StartOptions } from './start.js';
export { isLingering } from './user-scope.js';
