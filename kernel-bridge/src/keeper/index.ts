/** What the gateway uses of the keeper. */
export { type AdoptOptions, attachOrAdopt } from './adopt.js';
export { attachKeeper, type AttachOptions } from './attach.js';
export type * from './contract.js';
export { KeeperClient } from './keeper-client.js';
export { type GoneKeeper, KeeperError, type KeeperErrorCode, KeeperGoneError } from './keeper-error.js';
export { SpareKeeper } from './spare-keeper.js';
export { type KeeperDirs, startKeeper, type StartOptions } from './start.js';
export { isLingering } from './user-scope.js';
